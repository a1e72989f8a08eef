"""A Dag bundle whose Dags come from a folder of trigger and workflow files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from airflow.dag_processing.bundles.base import BaseDagBundle

from workorders.airflow.dag_files import dag_files


class WorkOrdersDagBundle(BaseDagBundle):
    """Makes the Dags of every trigger and workflow in a folder; needs no Dag files of one's own.

    Configure it in `[dag_processor] dag_bundle_config_list`, on every machine of Airflow the same:

        {"name": "workorders", "classpath": "workorders.airflow.bundle.WorkOrdersDagBundle",
         "kwargs": {"folder": "/opt/workorders"}}

    Args:
        folder: has `triggers/*.yaml`, Python files with decorated functions or `workflows/*.yaml`, and `outbox.yaml` if
            the outbox needs settings. Its Python files can be imported. `workorders init` creates such a folder.
        workflow_modules: modules elsewhere whose decorated functions are workflows.
        kwargs: arguments of Airflow's bundle.
    """

    supports_versioning = False

    def __init__(self, *, folder: str, workflow_modules: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.folder = Path(folder)
        self.workflow_modules = tuple(workflow_modules)

    @property
    def path(self) -> Path:
        """The folder of the Dag files, which `initialize` writes; Airflow asks for it before that as well."""
        return self.base_dir / "dags"

    def initialize(self) -> None:
        """Write the Dag files. Each task begins with this."""
        with self.lock():
            self._write()
        super().initialize()

    def refresh(self) -> None:
        """Do nothing: the Dag files read the folder each time."""

    def get_current_version(self) -> None:
        """Return None: the folder has no versions."""
        return

    def _write(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        for name, text in dag_files(f"Path({str(self.folder)!r})", self.workflow_modules).items():
            file = self.path / name
            if file.exists() and file.read_text(encoding="utf-8") == text:
                continue  # a newer file would be parsed again
            # Written under another name first: a task on this machine may read the file now.
            written = file.with_suffix(".new")
            written.write_text(text, encoding="utf-8")
            written.replace(file)
