"""Which files a task's process reads: it needs one Dag, and the folder may define thousands."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from airflow.sdk import DAG, get_parsing_context

from workorders.core.definitions.loading import WORKFLOWS, Source, read
from workorders.core.definitions.trigger import FoundWorkflow
from workorders.core.definitions.workflow import WorkflowDefinition


def for_this_process(sources: Sequence[Source], make: Callable[[Sequence[Source]], dict[str, DAG]]) -> dict[str, DAG]:
    """Return the Dags of all sources; in a task's process only the Dag of the task, from as few sources as possible.

    Of two sources that define one Dag, the first counts.
    """
    dag_id = get_parsing_context().dag_id
    for some in () if dag_id is None else _likely_sources(sources, dag_id):
        dags = make(some)
        if dag_id in dags:
            return {dag_id: dags[dag_id]}
    return make(sources)


def finder(sources: Sequence[Source]) -> Callable[[str], FoundWorkflow]:
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
