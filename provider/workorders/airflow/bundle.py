"""A Dag bundle whose Dags come from a folder of trigger and workflow files."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from airflow.dag_processing.bundles.base import BaseDagBundle
from airflow.sdk import conf

from workorders.airflow.dag_files import dag_files
from workorders.core.private_files import private_folder, write_private


class WorkOrdersDagBundle(BaseDagBundle):
    """Makes the Dags of every trigger and workflow in a folder; needs no Dag files.

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
        if not conf.get("dag_processor", "dag_bundle_storage_path", fallback=None):
            # Airflow's default is below /tmp, where any user may have made the folder first; Airflow runs its files.
            self.base_dir = (
                Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser() / "workorders_dag_bundles" / self.name
            )
        self.folder = Path(folder)
        self.workflow_modules = tuple(workflow_modules)

    @property
    def path(self) -> Path:
        """The folder of the Dag files, which `initialize` writes; Airflow asks for it before that as well."""
        return self.base_dir / "dags"

    def initialize(self) -> None:
        """Write the Dag files. Each task begins with this.

        Raises:
            ConfigurationError: others may have written to the folder, whose files Airflow would run.
        """
        private_folder(self.base_dir)
        files = dag_files(f"Path({str(self.folder)!r})", self.workflow_modules)
        for file in private_folder(self.path).glob("*.py"):
            if file.name not in files:
                file.unlink(missing_ok=True)  # of another version
        for name, text in files.items():
            file = self.path / name
            # A newer file would be parsed again.
            if not file.exists() or file.read_text(encoding="utf-8") != text:
                write_private(file, text)
        super().initialize()

    def refresh(self) -> None:
        """Do nothing: the Dag files read the folder each time."""

    def get_current_version(self) -> None:
        """Return None: the folder has no versions."""
        return
