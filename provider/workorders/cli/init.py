"""`workorders init`: a folder with a trigger, its function, and a test of the function."""

import json
import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final

from workorders.cli.connections import airflow_is_configured
from workorders.cli.options import argument
from workorders.core.definitions.json_schema import WORKFLOW, published
from workorders.core.definitions.trigger import trigger_types
from workorders.core.exceptions import ConfigurationError

_SETTING: Final = "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST"
_LOCAL: Final = "airflow.dag_processing.bundles.local.LocalDagBundle"
_Bundle = dict[str, Any]
_DEFAULT_BUNDLE: Final[_Bundle] = {"name": "dags-folder", "classpath": _LOCAL, "kwargs": {}}
"""That of an Airflow without configuration."""
EXAMPLE: Final[Mapping[str, str]] = {
    "triggers/orders.yaml": """\
# yaml-language-server: $schema=../schema/kafka-trigger.schema.json
name: orders
type: kafka
workflow: ship
topics: [orders]
starting_offsets: latest
""",
    "shipping.py": '''\
"""The functions that run for work orders."""

from workorders import Context, workflow


@workflow
def ship(order: dict, context: Context) -> dict:
    """Ship one order."""
    context.logger.info("shipping order %s", order["order"])
    return {"shipped": order["order"]}
''',
    "test_shipping.py": '''\
"""Tests of the functions; they need no service."""

import logging
from types import SimpleNamespace

from shipping import ship


def test_an_order_is_shipped() -> None:
    context = SimpleNamespace(logger=logging.getLogger("test"))
    assert ship({"order": 7}, context) == {"shipped": 7}
''',
    "README.md": """\
# Orders

Each message of the Kafka topic in `triggers/orders.yaml` becomes a work order. For each work order, Airflow runs the
function `ship` in `shipping.py`.

```sh
pytest {home}                         # test the function
workorders triggers check {home}/triggers
workorders start orders               # check what is needed, and begin
echo '{{"order": 7}}' | kcat -P -b BROKER:9092 -t orders
workorders runs list --workflow ship  # the run and its state
```

For another function, add a file like `shipping.py`; for another topic, one like `triggers/orders.yaml`. Run
`workorders init` again after an upgrade: it renews the schemas and the Dag files, and leaves your files alone.
""",
}
"""Files to begin with; `README.md` is formatted with `home`."""
_DAG_FILES: Final = {
    "triggers": ("workorders.airflow.dags", 'trigger_dags(FOLDER / "triggers", FOLDER / "workflows", MODULES)'),
    "workflows": ("workorders.airflow.dags", 'workflow_dags(FOLDER / "workflows", MODULES)'),
    "outbox": ("workorders.kafka.airflow", 'outbox_dags(FOLDER / "outbox.yaml")'),
    "maintenance": ("workorders.airflow.dags", "maintenance_dags()"),
}
_DAG_FILE: Final = '''\
"""Dags of work orders: {name}. `workorders init` has written this file, and replaces it."""

from pathlib import Path

from workorders.airflow.dags import folder_modules
from {module} import {factory}

FOLDER = Path(__file__).parent.parent
MODULES = folder_modules(FOLDER)
globals().update({call})
'''


def init(folder: Annotated[Path, argument("FOLDER", "Folder; created if it does not exist.")]) -> None:
    """Create a folder with a trigger, its function, and a test, and print how Airflow finds it.

    In Airflow's Dags folder, Airflow needs no setting. Elsewhere it prints the setting that adds the folder's Dag files
    to the Dag bundles that are configured here. A folder with triggers gets only what a new version replaces: Dag files
    and the schemas for editors.

    Examples:
      workorders init "$(airflow config get-value core dags_folder)/orders"
      workorders init /opt/workorders
    """
    home = folder.resolve()
    is_configured = airflow_is_configured()
    bundles = _configured_bundles() if is_configured else [_DEFAULT_BUNDLE]
    found_by = _containing(home / "dags", bundles) if is_configured else None
    if not (home / "triggers").exists():
        for name, text in EXAMPLE.items():
            _write(home / name, text.format(home=home) if name == "README.md" else text)
    for kind in sorted(trigger_types()):
        _write(home / "schema" / f"{kind}-trigger.schema.json", published(kind), replace=True)
    _write(home / "schema" / "workflow.schema.json", published(WORKFLOW), replace=True)
    for name, (module, call) in _DAG_FILES.items():
        text = _DAG_FILE.format(name=name, module=module, factory=call.partition("(")[0], call=call)
        _write(home / "dags" / f"workorders_{name}.py", text, replace=True)
    if found_by is not None:
        from airflow.sdk import conf  # noqa: PLC0415 - Airflow takes seconds

        from workorders.airflow import metadata  # noqa: PLC0415

        bundle, root = found_by
        if metadata.request_parsing(bundle, (home / "dags" / "workorders_triggers.py").relative_to(root)):
            print(f"Airflow's Dag processor reads {home / 'dags'} now.")
        else:
            print(
                f"Airflow finds {home / 'dags'} without a setting, at the latest "
                f"{conf.getint('dag_processor', 'refresh_interval')} s after its Dag processor has started."
            )
    else:
        names = ", ".join(bundle["name"] for bundle in bundles)
        print(
            f"If no Git bundle reads this folder, set this for every Airflow component, after the package is installed "
            f"there, and restart it. It keeps the bundles that are configured in this shell ({names}).\n"
            f"export {_SETTING}={shlex.quote(json.dumps(_with_folder(bundles, home / 'dags')))}"
        )


def _write(path: Path, text: str, *, replace: bool = False) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w" if replace else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        print(f"exists   {path}")
    except OSError as error:
        raise ConfigurationError(
            f"{path} could not be written ({error.strerror}); the files before it were. Give a folder that you may "
            f"write."
        ) from error
    else:
        print(f"written  {path}")


def _configured_bundles() -> list[_Bundle]:
    """Return the Dag bundles of Airflow's configuration."""
    # Not above: where Airflow is not configured, this import would make its home folder.
    from airflow.sdk import conf  # noqa: PLC0415
    from airflow.sdk.exceptions import AirflowConfigException  # noqa: PLC0415

    found: Any = None
    with suppress(AirflowConfigException):  # it is no JSON
        found = conf.getjson("dag_processor", "dag_bundle_config_list")
    if not (isinstance(found, list) and all(isinstance(bundle, dict) and "name" in bundle for bundle in found)):
        raise ConfigurationError(
            "Airflow's [dag_processor] dag_bundle_config_list is no JSON list of objects with a name, so no folder was "
            "added to it and nothing was written; correct it first."
        )
    return found


def _containing(folder: Path, bundles: list[_Bundle]) -> tuple[str, Path] | None:
    """Return the name and the folder of the configured local bundle that contains this folder; None if none does."""
    from airflow.sdk import conf  # noqa: PLC0415 - as above

    for bundle in bundles:
        if bundle.get("classpath") == _LOCAL:
            kwargs = bundle.get("kwargs") or {}
            root = Path(kwargs.get("path") or conf.get_mandatory_value("core", "dags_folder")).resolve()
            if folder.is_relative_to(root):
                return bundle["name"], root
    return None


def _with_folder(bundles: list[_Bundle], folder: Path) -> list[_Bundle]:
    """Return the list with one more bundle, of this folder."""
    taken = {bundle["name"] for bundle in bundles}
    names = ("workorders", *(f"workorders-{number}" for number in range(2, len(taken) + 2)))
    name = next(name for name in names if name not in taken)
    return [*bundles, {"name": name, "classpath": _LOCAL, "kwargs": {"path": str(folder)}}]
