"""`workorders init`: a folder of trigger and workflow files to begin with."""

import json
from pathlib import Path
from typing import Annotated

import typer

from workorders.airflow.dag_files import dag_files
from workorders.core.exceptions import ConfigurationError

_FILES = {
    "triggers/orders.yaml": """\
# One work order of the workflow `ship` for each message; `workorders triggers schema kafka` has all fields.
name: orders
type: kafka
workflow: ship
topics: [orders]
""",
    "workflows/ship.yaml": """\
# What is executed for each work order; `workorders workflows schema` has all fields.
name: ship
callable: shipping:ship
ordering_key: key
retries:
  attempts: 3
""",
    "shipping.py": '''\
"""The functions of the workflows."""

from workorders import Context


def ship(order: dict, context: Context) -> dict:
    """Ship one order."""
    context.logger.info("shipping order %s", order.get("order"))
    return {"shipped": order.get("order")}
''',
}
_BUNDLE = "workorders.airflow.bundle.WorkOrdersDagBundle"


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder; it is created if it does not exist.")],
    with_dag_files: Annotated[
        bool, typer.Option("--dag-files", help="Write Dag files as well, for a Dag bundle of your own.")
    ] = False,
) -> None:
    """Create a folder with a trigger, a workflow, and its function, and print how Airflow finds them.

    Files that exist are not changed. The printed line configures the provider's Dag bundle, which needs no Dag files.

    \b
    Examples:
      workorders init /opt/workorders
      workorders init --dag-files /opt/airflow/workorders
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    files = dict(_FILES)
    if with_dag_files:
        files |= {f"dags/{name}": text for name, text in dag_files("Path(__file__).parent.parent").items()}
    home = folder.resolve()
    for name, text in files.items():
        _write(home / name, text)
    if with_dag_files:
        print(f"Add {home / 'dags'} to a Dag bundle, and {home} to PYTHONPATH of every Airflow component.")
        return
    bundle = {"name": "workorders", "classpath": _BUNDLE, "kwargs": {"folder": str(home)}}
    print(
        f"Add this to [dag_processor] dag_bundle_config_list of every Airflow component; alone, it is\n"
        f"export AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST='{json.dumps([bundle])}'"
    )


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
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
