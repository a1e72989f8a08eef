"""What Airflow's database knows of our Dags, for the pages and the command line: nothing of it is a public interface.

Airflow may change it in any release, so it is here and in `workorders.airflow.api_server` alone. Airflow's database is
closed to tasks.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from airflow.api.common.airflow_health import HEALTHY, get_airflow_health
from airflow.api.common.delete_dag import delete_dag
from airflow.models.dag import DagModel, DagTag
from airflow.models.dagbag import DagPriorityParsingRequest
from airflow.models.errors import ParseImportError
from airflow.models.serialized_dag import SerializedDagModel
from airflow.sdk.exceptions import AirflowException
from airflow.serialization.serialized_objects import BaseSerialization
from airflow.utils.session import create_session
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from workorders.core.exceptions import ConfigurationError

COMPONENTS: Final = ("scheduler", "triggerer", "dag_processor")
"""The components without which no message arrives."""


@dataclass(frozen=True, slots=True)
class KnownDag:
    """A Dag that the Dag processor has parsed."""

    dag_id: str
    is_paused: bool
    bundle: str
    file: str
    """Path of the file that makes it."""


def paused_dags(dag_ids: Collection[str]) -> dict[str, bool]:
    """Return whether each of these Dags is paused; none for a Dag that Airflow does not know."""
    with create_session(scoped=False) as session:
        rows = session.execute(select(DagModel.dag_id, DagModel.is_paused).where(DagModel.dag_id.in_(dag_ids)))
        return {dag_id: bool(is_paused) for dag_id, is_paused in rows}


def our_dags(*, gone: bool = False) -> dict[str, KnownDag]:
    """Return the package's Dags that a file makes, or those that none makes any more, by id."""
    ours = select(DagTag.dag_id).where(DagTag.name == "workorders")
    columns = select(DagModel.dag_id, DagModel.is_paused, DagModel.bundle_name, DagModel.fileloc)
    with create_session(scoped=False) as session:
        rows = session.execute(columns.where(DagModel.dag_id.in_(ours), DagModel.is_stale.is_(gone)))
        return {row.dag_id: KnownDag(row.dag_id, bool(row.is_paused), row.bundle_name, row.fileloc) for row in rows}


def unpause(dag_id: str) -> None:
    """Unpause a Dag, as `airflow dags unpause` does."""
    with create_session(scoped=False) as session:
        dag = session.get(DagModel, dag_id)
        if dag is not None:
            dag.is_paused = False


def delete(dag_id: str) -> None:
    """Delete a Dag and its Dag runs.

    Raises:
        ConfigurationError: a task of it runs.
    """
    try:
        delete_dag(dag_id)
    except AirflowException as error:
        raise ConfigurationError(
            f"Airflow did not delete the Dag {dag_id}: {error}. Those before it were deleted. Wait for the end of its "
            f"tasks, or mark them as failed."
        ) from error


def request_parsing(bundle: str, file: Path) -> bool:
    """Let the Dag processor look for new files of a bundle now, as the button *Reparse* of Airflow's pages does.

    Returns whether that is recorded; otherwise Airflow's database is unavailable. `file` is one of it, from the
    bundle's folder.
    """
    columns = {"bundle_name": bundle, "relative_fileloc": str(file)}
    try:
        with create_session(scoped=False) as session:
            if session.scalar(select(DagPriorityParsingRequest.id).filter_by(**columns)) is None:
                session.add(DagPriorityParsingRequest(**columns))
    except SQLAlchemyError:
        return False
    return True


def import_errors() -> list[str]:
    """Return the file and the last line of each error of the Dag processor that is about this package."""
    columns = select(ParseImportError.filename, ParseImportError.stacktrace)
    with create_session(scoped=False) as session:
        found = [(file, trace or "") for file, trace in session.execute(columns)]
    return [f"{file}: {trace.strip().splitlines()[-1]}" for file, trace in found if "workorders" in trace]


def ended_components() -> list[str]:
    """Return the components that have no recent heartbeat."""
    health = get_airflow_health()
    return [name for name in COMPONENTS if health[name]["status"] != HEALTHY]


def definition_of(dag_id: str, task_id: str) -> Mapping[str, Any] | None:
    """Return the definition that the first task of a Dag waits with, as Airflow has stored it; None if it has none."""
    dag = SerializedDagModel.get_dag(dag_id)
    if dag is None:
        return None
    task: Any = dag.get_task(task_id)
    definition = BaseSerialization.deserialize(task.start_trigger_args.trigger_kwargs).get("definition")
    return definition if isinstance(definition, dict) else None
