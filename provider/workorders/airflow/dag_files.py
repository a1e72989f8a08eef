"""The Dag files of a folder of definitions: each has one statement and calls a Dag factory of the package."""

from collections.abc import Iterable

_FILES = {
    "triggers": ("workorders.airflow.dags", 'trigger_dags({folder} / "triggers", {folder} / "workflows", {modules})'),
    "workflows": ("workorders.airflow.dags", 'workflow_dags({folder} / "workflows", {modules})'),
    "outbox": ("workorders.kafka.airflow", 'outbox_dags({folder} / "outbox.yaml")'),
    "maintenance": ("workorders.airflow.dags", "maintenance_dags()"),
}
_TEXT = '''\
"""Dags of work orders: {name}. `workorders init` or a Dag bundle wrote this file."""

from pathlib import Path

from {module} import {factory}

globals().update({call})
'''


def dag_files(folder: str, modules: Iterable[str] = ()) -> dict[str, str]:
    """Return the text of each Dag file by its name.

    Args:
        folder: the Python expression of the folder that has `triggers/`, `workflows/`, and `outbox.yaml`.
        modules: modules whose decorated functions are workflows.
    """
    files = {}
    for name, (module, template) in _FILES.items():
        call = template.format(folder=folder, modules=sorted(modules))
        text = _TEXT.format(name=name, module=module, factory=call.partition("(")[0], call=call)
        files[f"workorders_{name}.py"] = text if "Path" in call else text.replace("from pathlib import Path\n\n", "")
    return files
