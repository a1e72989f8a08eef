"""The Dag bundles that Airflow is configured with, and the list with one more for a folder of definitions."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from workorders.core.exceptions import ConfigurationError

SETTING: Final = "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST"
_LOCAL: Final = "airflow.dag_processing.bundles.local.LocalDagBundle"
_OURS: Final = "workorders.airflow.bundle.WorkOrdersDagBundle"
_Bundle = dict[str, Any]


def _default() -> list[_Bundle]:
    return [{"name": "dags-folder", "classpath": _LOCAL, "kwargs": {}}]


@dataclass(frozen=True, kw_only=True)
class DagBundles:
    """A list of bundles; by default that of an Airflow without configuration."""

    bundles: list[_Bundle] = field(default_factory=_default)
    #: The path of a local bundle without one; None if it is unknown.
    dags_folder: Path | None = None
    #: Seconds until Airflow looks for new files.
    refresh_seconds: int = 300

    def find(self, folder: Path) -> tuple[str, Path] | None:
        """Return the name and the folder of the local bundle that contains this folder; None if none does."""
        return next((found for found in self._local_folders() if folder.is_relative_to(found[1])), None)

    def with_folder(self, folder: Path) -> list[_Bundle]:
        """Return the list in which one bundle makes the Dags of this folder; no other bundle is left out."""
        if any(
            bundle.get("classpath") == _OURS and _kwargs(bundle).get("folder") == str(folder) for bundle in self.bundles
        ):
            return self.bundles
        taken = {bundle["name"] for bundle in self.bundles}
        names = ("workorders", *(f"workorders-{number}" for number in range(2, len(taken) + 2)))
        name = next(name for name in names if name not in taken)
        return [*self.bundles, {"name": name, "classpath": _OURS, "kwargs": {"folder": str(folder)}}]

    def _local_folders(self) -> Iterator[tuple[str, Path]]:
        for bundle in self.bundles:
            if bundle.get("classpath") == _LOCAL and (path := _kwargs(bundle).get("path") or self.dags_folder):
                yield bundle["name"], Path(path).resolve()


def configured() -> DagBundles:
    """Return the bundles of Airflow's configuration.

    Raises:
        ConfigurationError: the setting is no list of bundles.
    """
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
    return DagBundles(
        bundles=found,
        dags_folder=Path(conf.get_mandatory_value("core", "dags_folder")),
        refresh_seconds=conf.getint("dag_processor", "refresh_interval"),
    )


def _kwargs(bundle: _Bundle) -> dict[str, Any]:
    return bundle.get("kwargs") or {}
