"""What the package tells Airflow about itself."""

import json
from importlib.metadata import entry_points
from importlib.resources import files

import jsonschema
import pytest
from airflow.dag_processing.bundles import manager
from airflow.providers_manager import ProvidersManager

from workorders.airflow.plugin import WorkOrdersPlugin
from workorders.airflow.provider_info import get_provider_info


def test_it_has_the_form_that_airflow_asks_for() -> None:
    schema = json.loads(files("airflow").joinpath("provider_info.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(get_provider_info(), schema)


def test_airflow_finds_the_package_in_which_it_looks_for_example_dags(monkeypatch: pytest.MonkeyPatch) -> None:
    # Airflow itself refuses a name that is not the distribution's.
    name = get_provider_info()["package-name"]
    assert name in ProvidersManager().providers  # type: ignore[no-untyped-call]
    unfound: list[str] = []
    monkeypatch.setattr(manager.log, "exception", lambda text, *arguments: unfound.append(text % arguments))
    manager._add_provider_example_dags_to_bundle([])
    assert [line for line in unfound if name.replace("-", "_") in line] == []


def test_the_entry_points_lead_to_it() -> None:
    (provider,) = [
        point for point in entry_points(group="apache_airflow_provider") if point.value.startswith("workorders.")
    ]
    assert provider.load() is get_provider_info
    (plugin,) = entry_points(group="airflow.plugins", name="workorders")
    assert plugin.load() is WorkOrdersPlugin
