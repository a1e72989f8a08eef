"""The Dag files of a folder of definitions: each has one statement and calls a Dag factory of the package."""

from collections.abc import Iterable

_FILES = {
    "triggers": ("workorders.airflow.dags", 'trigger_dags(FOLDER / "triggers", FOLDER / "workflows", MODULES)'),
    "workflows": ("workorders.airflow.dags", 'workflow_dags(FOLDER / "workflows", MODULES)'),
    "outbox": ("workorders.kafka.airflow", 'outbox_dags(FOLDER / "outbox.yaml")'),
    "maintenance": ("workorders.airflow.dags", "maintenance_dags()"),
}
_TEXT = '''\
"""Dags of work orders: {name}. `workorders init` or a Dag bundle wrote this file, and replaces it."""

from pathlib import Path

from workorders.airflow.dags import folder_modules
from {module} import {factory}

FOLDER = {folder}
MODULES = folder_modules(FOLDER, {modules})
globals().update({call})
'''


def dag_files(folder: str, modules: Iterable[str] = ()) -> dict[str, str]:
    """Return the text of each Dag file by its name.

    `folder` is a Python expression, and `modules` are those elsewhere whose decorated functions are workflows.
    """
    return {
        f"workorders_{name}.py": _TEXT.format(
            name=name, module=module, factory=call.partition("(")[0], call=call, folder=folder, modules=sorted(modules)
        )
        for name, (module, call) in _FILES.items()
    }
