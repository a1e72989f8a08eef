"""The Dags of every trigger file, and what all factories share: which files a process reads, and kinds of Dags."""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from airflow.sdk import DAG, BaseOperator, Context, get_parsing_context
from airflow.sdk.exceptions import AirflowFailException

from workorders import dag_ids
from workorders.airflow.retries import unlimited_retries
from workorders.core.definitions.loading import TRIGGERS, WORKFLOWS, D, Kind, Mistake, Source, label, read
from workorders.core.definitions.trigger import FoundWorkflow, TriggerDefinition, installed
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.environment import trigger_folder, workflow_modules  # noqa: F401 - a public name of the package
from workorders.core.exceptions import ConfigurationError

START: Final = datetime(2024, 1, 1, tzinfo=UTC)
"""Any time in the past: Dag runs follow one another or a person's request, and belong to no interval."""
DAG_FACTORIES_GROUP = "workorders.dag_factories"
"""Entry point group in which a trigger type announces the function that makes its Dags from a definition."""
_DECORATES: Final = re.compile(rb"^@(workorders\.)?workflow\b", re.MULTILINE)


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


def owner_and_tags(definition: TriggerDefinition | WorkflowDefinition, *roles: str) -> dict[str, Any]:
    """Return the arguments of a Dag that tell whose it is: the definition's owner, and the tags to find it by."""
    tags = {"workorders", definition.name, *roles, *definition.tags}
    return {"default_args": {"owner": definition.owner}, "tags": sorted(tags)}


def task_settings(definition: TriggerDefinition | WorkflowDefinition, task_id: str) -> dict[str, Any]:
    """Return the arguments of a task of the definition's Dags: its id, and what the definition sets for it."""
    settings = definition.tasks.get(task_id)
    return {"task_id": task_id, **(settings.model_dump(exclude_defaults=True) if settings else {})}


def retried_task(definition: TriggerDefinition | WorkflowDefinition, task_id: str) -> dict[str, Any]:
    """Return the same arguments, with unlimited retries."""
    return {**unlimited_retries(), **task_settings(definition, task_id)}


def collect(kind: Kind[D], sources: Sequence[Source], make: Callable[[D], Iterable[DAG]]) -> dict[str, DAG]:
    """Return the Dags of all definitions by id, with one that fails in place of each file with a mistake.

    In a task's process it is only the Dag of the task, from as few sources as possible: a folder may define thousands.
    Of two sources that define one Dag, the first counts.
    """
    dag_id = get_parsing_context().dag_id
    for some in () if dag_id is None else _likely_sources(sources, dag_id):
        dags = _collect(kind, some, make)
        if dag_id in dags:
            return {dag_id: dags[dag_id]}
    return _collect(kind, sources, make)


def _collect(kind: Kind[D], sources: Sequence[Source], make: Callable[[D], Iterable[DAG]]) -> dict[str, DAG]:
    found = read(kind, sources)
    dags: list[DAG] = []
    mistakes = list(found.mistakes)
    for name, definition in found.definitions.items():
        try:
            dags += make(definition)
        except ConfigurationError as error:
            mistakes.append(Mistake(found.sources[name], error))
    dags += [configuration_error_dag(mistake, kind.name) for mistake in mistakes]
    return {dag.dag_id: dag for dag in dags}


def _likely_sources(sources: Sequence[Source], dag_id: str) -> Iterator[Sequence[Source]]:
    """Return sources that may define a Dag, or a workflow of that name, the likeliest first.

    Each contains every file that may define the name, because a file before it in the order would count instead.
    Without being parsed, a file is known not to define a name that is not in its text.
    """
    files = (source for source in sources if isinstance(source, Path))
    texts = {path: path.read_bytes() for path in files if path.is_file() and os.access(path, os.R_OK)}
    found: set[Source] = set()
    # The id of a Dag is `<name>_<role>`.
    for name in (dag_id, dag_id.rpartition("_")[0]):
        token = re.compile(rb"(?<![\w-])%b(?![\w-])" % re.escape(name).encode())
        likely = {path for path, text in texts.items() if path.stem == name or token.search(text)}
        found |= likely
        if likely:
            yield [source for source in sources if source in likely]
    # Last, because to ask a module means to import it.
    yield [source for source in sources if source in found or source not in texts]


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
    find = _finder([*files, *modules])
    return collect(
        TRIGGERS,
        TRIGGERS.files(folder),
        lambda definition: make_dags(definition.with_workflow(find(definition.workflow))),
    )


def _finder(sources: Sequence[Source]) -> Callable[[str], FoundWorkflow]:
    """Return what finds the definition of a workflow; in a task's process it reads as few sources as possible."""
    if get_parsing_context().dag_id is None:
        return read(WORKFLOWS, sources).find

    def find(name: str) -> FoundWorkflow:
        found: FoundWorkflow = None
        for some in _likely_sources(sources, name):
            found = read(WORKFLOWS, some).find(name)
            if isinstance(found, WorkflowDefinition):
                break
        return found

    return find


def folder_modules(folder: Path) -> list[str]:
    """Make the modules of a folder importable, and return those whose decorated functions are workflows.

    These are the Python files of the folder with a line that begins with `@workflow`, and the modules that the
    environment names. The files are not imported.
    """
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    found = {path.stem for path in folder.glob("*.py") if path.is_file() and _DECORATES.search(path.read_bytes())}
    return sorted({*found, *workflow_modules()})


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

    def execute(self, context: Context) -> None:
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
