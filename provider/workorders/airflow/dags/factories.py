"""The Dags of every trigger file, and what their factories share: kinds of Dags, and the Dag in place of a mistake."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import DAG, BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from workorders import dag_ids
from workorders.airflow.dags.parsing_context import finder, for_this_process
from workorders.airflow.retries import unlimited_retries
from workorders.core.definitions.loading import TRIGGERS, WORKFLOWS, D, Kind, Mistake, Source, label, read
from workorders.core.definitions.trigger import TriggerDefinition, installed
from workorders.core.environment import trigger_folder  # noqa: F401 - a public name of the package
from workorders.core.exceptions import ConfigurationError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from workorders.core.definitions.workflow import WorkflowDefinition

START: Final = datetime(2024, 1, 1, tzinfo=UTC)
"""Any time in the past: Dag runs follow one another or a person's request, and belong to no interval."""
DAG_FACTORIES_GROUP = "workorders.dag_factories"
"""Entry point group in which a trigger type announces the function that makes its Dags from a definition."""


def new_dag(dag_id: str, **about: Any) -> DAG:
    """Return a Dag whose tries all use the current files, and not those of its Dag run's start.

    In a versioned bundle Airflow would keep these, so that a stalled batch could not be helped by a change of its
    trigger's file.

    It is created unpaused, whatever Airflow's default is. Only a Dag that takes input by itself is a switch, and is
    created paused.
    """
    return DAG(
        dag_id, disable_bundle_versioning=True, **{"start_date": START, "is_paused_upon_creation": False, **about}
    )


def continuous_dag(dag_id: str, **about: Any) -> DAG:
    """Return a Dag that starts its next run when one has ended, for a sensor at its head."""
    return new_dag(dag_id, schedule="@continuous", max_active_runs=1, catchup=False, **about)


def owner_and_tags(definition: "TriggerDefinition | WorkflowDefinition", *roles: str) -> dict[str, Any]:
    """Return the arguments of a Dag that tell whose it is: the definition's owner, and the tags to find it by."""
    tags = {"workorders", definition.name, *roles, *definition.tags}
    return {"default_args": {"owner": definition.owner}, "tags": sorted(tags)}


def task_settings(definition: "TriggerDefinition | WorkflowDefinition", task_id: str) -> dict[str, Any]:
    """Return the arguments of a task of the definition's Dags: its id, and what the definition sets for it."""
    settings = definition.tasks.get(task_id)
    return {"task_id": task_id, **(settings.model_dump(exclude_defaults=True) if settings else {})}


def retried_task(definition: "TriggerDefinition | WorkflowDefinition", task_id: str) -> dict[str, Any]:
    """Return the same arguments, with unlimited retries."""
    return {**unlimited_retries(), **task_settings(definition, task_id)}


def collect(kind: Kind[D], sources: Sequence[Source], make: Callable[[D], Iterable[DAG]]) -> dict[str, DAG]:
    """Return the Dags of all definitions by id, with one that fails in place of each file with a mistake.

    In a task's process it is only the Dag of the task.
    """

    def collected(some: Sequence[Source]) -> dict[str, DAG]:
        found = read(kind, some)
        dags: list[DAG] = []
        mistakes = list(found.mistakes)
        for name, definition in found.definitions.items():
            try:
                dags += make(definition)
            except ConfigurationError as error:
                mistakes.append(Mistake(found.sources[name], error))
        dags += [configuration_error_dag(mistake, kind.name) for mistake in mistakes]
        return {dag.dag_id: dag for dag in dags}

    return for_this_process(sources, collected)


def trigger_dags(folder: Path, workflows: Path | None = None, modules: Iterable[str] = ()) -> dict[str, DAG]:
    """Return the Dags of every trigger file in a folder, by id.

    In place of a file with a mistake there is a Dag that fails and names the wrong field. Other triggers are not
    affected. A trigger stores the definition of its workflow before it creates work orders, so that the ordering key
    and the limits apply to the first of them.

    Args:
        folder: the trigger files.
        workflows: the folder of the workflow files; by default the folder `workflows` next to it.
        modules: modules whose decorated functions are workflows.

    Raises:
        ConfigurationError: the folder does not exist.
    """
    files = WORKFLOWS.files(workflows or folder.parent / "workflows", may_be_missing=True)
    find = finder([*files, *modules])
    return collect(
        TRIGGERS,
        TRIGGERS.files(folder),
        lambda definition: make_dags(definition.with_workflow(find(definition.workflow))),
    )


def make_dags(definition: TriggerDefinition) -> list[DAG]:
    """Return the Dags of one trigger, made by the factory of its type.

    Raises:
        ConfigurationError: the type has no factory.
    """
    factories = installed(DAG_FACTORIES_GROUP).select(name=definition.type)
    if not factories:
        raise ConfigurationError(
            f"Trigger {definition.name}: nothing makes Dags for the type {definition.type}, so it has none. Announce a "
            f"factory in the entry points workorders.dag_factories of the package that has the type."
        )
    made: list[DAG] = next(iter(factories)).load()(definition)
    return made


class ConfigurationErrorOperator(BaseOperator):
    """Fails with the mistake of a file; a further try would only fail again."""

    def __init__(self, *, sentence: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.sentence = sentence

    def execute(self, context: "Context") -> None:
        """Fail."""
        raise AirflowFailException(self.sentence)


def configuration_error_dag(mistake: Mistake, kind: str) -> DAG:
    """Return a Dag in place of those of a file with a mistake: it fails once, with the sentence.

    An import error would stop all Dags of the same Dag file, also those of other definitions.
    """
    source, sentence = mistake.source, str(mistake.error)
    name = source.replace(".", "_") if isinstance(source, str) else source.stem
    with new_dag(
        dag_ids.refused(name),
        description=f"{label(source)} has a mistake",
        schedule="@once",
        tags=["workorders", "refused"],
        doc_md=f"**{label(source)} was refused, so its {kind} does not run.**\n\n{sentence}",
    ) as dag:
        # A try that Airflow loses before it starts, on a busy machine, fails without the sentence.
        ConfigurationErrorOperator(
            task_id=f"read_{kind}_file", sentence=sentence, retries=3, retry_delay=timedelta(seconds=10)
        )
    return dag
