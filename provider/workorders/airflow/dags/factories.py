"""How our Dags are made: when they run, and what becomes of a file with a mistake."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from airflow.sdk import DAG

from workorders.airflow.operators.configuration_error import RefusedOperator
from workorders.core.exceptions import ConfigurationError


class Named(Protocol):
    """The definition of a trigger or a workflow."""

    @property
    def name(self) -> str:
        """Unique among those of its kind."""


D = TypeVar("D", bound=Named)

START: Final = datetime(2024, 1, 1, tzinfo=UTC)
"""Any time in the past: runs follow one another, or a person's wish, and belong to no interval."""


def always_running(dag_id: str, **about: Any) -> DAG:
    """Return a DAG of which one run follows the other, for a sensor that waits at its head."""
    return DAG(dag_id, schedule="@continuous", start_date=START, max_active_runs=1, catchup=False, **about)


def by_hand(dag_id: str, **about: Any) -> DAG:
    """Return a DAG that runs when a person triggers it, and at no other time."""
    # Paused, the form would do nothing.
    return DAG(dag_id, schedule=None, start_date=START, is_paused_upon_creation=False, **about)


def by_clock(dag_id: str, schedule: str, **about: Any) -> DAG:
    """Return a DAG that runs at set times, one run after the other; times that were missed are not made up for."""
    return DAG(dag_id, schedule=schedule, start_date=START, catchup=False, max_active_runs=1, **about)


def collect(
    kind: str, sources: Mapping[Path, Callable[[], Iterable[D]]], make: Callable[[D], Iterable[DAG]]
) -> dict[str, DAG]:
    """Return the Dags of all definitions by id, with one that fails in the place of each source with a mistake.

    Args:
        kind: what the sources define, in a word.
        sources: files, and what loads the definitions of each.
        make: makes the Dags of a definition.
    """
    dags: list[DAG] = []
    taken: dict[str, Path] = {}
    for source, load in sources.items():
        try:
            for definition in load():
                if definition.name in taken:
                    raise ConfigurationError(
                        f"{source.name}: name: {kind} {definition.name} is already defined in "
                        f"{taken[definition.name].name}; every {kind} needs a name of its own."
                    )
                dags += make(definition)
                taken[definition.name] = source
        except ConfigurationError as error:
            dags.append(refused_dag(source, error, kind))
    return {dag.dag_id: dag for dag in dags}


def refused_dag(path: Path, error: ConfigurationError, kind: str = "trigger") -> DAG:
    """Return a Dag in place of those of a file with a mistake: it fails once, with the sentence.

    It is no import error: with one, Airflow would stop all Dags that the same Dag file makes, also for other files.

    Args:
        path: the file.
        error: what is wrong in it.
        kind: what the file defines, in a word.
    """
    with DAG(
        dag_id=f"{path.stem}_refused",
        description=f"{path.name} has a mistake",
        schedule="@once",
        # Created paused, as is the default of Airflow, it would neither run nor be red.
        is_paused_upon_creation=False,
        tags=["workorders", "refused"],
        doc_md=f"**{path.name} was refused, so its {kind} does not run.**\n\n{error}",
    ) as dag:
        # For a try that Airflow loses before it begins, on a busy machine: it would fail without the sentence.
        RefusedOperator(task_id=f"read_{kind}_file", sentence=str(error), retries=3, retry_delay=timedelta(seconds=10))
    return dag
