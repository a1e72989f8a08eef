"""Makes the DAGs of every trigger file, whatever its type."""

import os
from datetime import timedelta
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from workorders.airflow.operators.sequence_gaps import gap_dag
from workorders.core.definitions.loading import load_trigger, yaml_files
from workorders.core.definitions.trigger import TriggerDefinition
from workorders.core.environment import TRIGGERS_VARIABLE
from workorders.core.exceptions import ConfigurationError

if TYPE_CHECKING:
    from airflow.sdk import Context

DAG_FACTORIES_GROUP = "workorders.dag_factories"
"""Entry point group in which a trigger type announces the function that makes its DAGs from a definition."""


def trigger_folder(default: Path) -> Path:
    """Return the folder of trigger files: the environment's, or else the default."""
    return stated_trigger_folder() or default


def stated_trigger_folder() -> Path | None:
    """Return the folder of trigger files that the environment names; None when it names none."""
    stated = os.environ.get(TRIGGERS_VARIABLE)
    return Path(stated) if stated else None


def trigger_dags(folder: Path) -> dict[str, DAG]:
    """Return the DAGs of every trigger file in a folder, by id.

    A file with a mistake takes no other trigger down with it: in the place of its DAGs stands one that fails, and says
    which field is wrong.

    Raises:
        ConfigurationError: the folder does not exist.
    """
    dags: list[DAG] = []
    taken: dict[str, Path] = {}
    for path in yaml_files(folder, "trigger"):
        try:
            definition = load_trigger(path)
            if definition.name in taken:
                raise ConfigurationError(
                    f"{path.name}: name: trigger {definition.name} is already defined in "
                    f"{taken[definition.name].name}; every trigger needs a name of its own."
                )
            dags += make_dags(definition)
            if definition.sequence is not None:
                dags.append(gap_dag(definition))
            taken[definition.name] = path
        except ConfigurationError as error:
            dags.append(refused_dag(path, error))
    return {dag.dag_id: dag for dag in dags}


def make_dags(definition: TriggerDefinition) -> list[DAG]:
    """Return the DAGs of one trigger, made by the factory of its type.

    Raises:
        ConfigurationError: the type has no factory.
    """
    factories = entry_points(group=DAG_FACTORIES_GROUP, name=definition.type)
    if not factories:
        raise ConfigurationError(f"Trigger {definition.name}: nothing makes DAGs for the type {definition.type}.")
    made: list[DAG] = next(iter(factories)).load()(definition)
    return made


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


class RefusedOperator(BaseOperator):
    """Fails with what is wrong in a file, and is not retried then."""

    def __init__(self, *, sentence: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.sentence = sentence

    def execute(self, context: "Context") -> None:
        """Fail.

        Raises:
            AirflowFailException: always.
        """
        raise AirflowFailException(self.sentence)
