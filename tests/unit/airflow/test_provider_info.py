"""What the package tells Airflow about itself."""

import json
from importlib import import_module
from importlib.metadata import entry_points
from importlib.resources import files

import jsonschema

from workorders.airflow.plugin import WorkOrdersPlugin
from workorders.airflow.provider_info import get_provider_info


def test_it_has_the_form_that_airflow_asks_for() -> None:
    schema = json.loads(files("airflow").joinpath("provider_info.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(get_provider_info(), schema)


def test_every_module_and_class_that_it_names_is_there() -> None:
    info = get_provider_info()
    named = [
        module
        for kind in ("sensors", "operators", "triggers", "hooks")
        for part in info[kind]
        for module in part["python-modules"]
    ]
    assert len(named) == 8
    for module in named:
        import_module(module)
    for connection in info["connection-types"]:
        module, _, name = connection["hook-class-name"].rpartition(".")
        hook = getattr(import_module(module), name)
        assert (hook.conn_type, hook.hook_name) == (connection["connection-type"], connection["hook-name"])


def test_the_entry_points_lead_to_it() -> None:
    (provider,) = [
        point for point in entry_points(group="apache_airflow_provider") if point.value.startswith("workorders.")
    ]
    assert provider.load() is get_provider_info
    (plugin,) = entry_points(group="airflow.plugins", name="workorders")
    assert plugin.load() is WorkOrdersPlugin
