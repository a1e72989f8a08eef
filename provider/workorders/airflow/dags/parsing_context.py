"""Which files a task's process reads: it needs one Dag, and the folder may define thousands."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from airflow.sdk import DAG, get_parsing_context

Load = TypeVar("Load", bound=Callable[..., object])

_ESCAPE = rb"\\[xuU\s\x80-\xff]"
"""An escape in YAML behind which a letter, a digit, `-` or `_` may hide, or a line that continues."""


def for_this_process(
    sources: Mapping[Path, Load], make: Callable[[Mapping[Path, Load]], dict[str, DAG]]
) -> dict[str, DAG]:
    """Return the Dags of all sources; in a task's process only the Dag of the task, from as few sources as possible.

    Args:
        sources: files, and modules as paths without a suffix; of two that define one Dag, the first counts.
        make: makes the Dags of sources.
    """
    dag_id = get_parsing_context().dag_id
    for some in () if dag_id is None else _likely_sources(sources, dag_id):
        dags = make(some)
        if dag_id in dags:
            return {dag_id: dags[dag_id]}
    return make(sources)


def _likely_sources(sources: Mapping[Path, Load], dag_id: str) -> Iterator[dict[Path, Load]]:
    """Return sources that may define a Dag, the likeliest first.

    Each contains every file that may define the name, because a file before it in the order would count instead.
    Without being parsed, a file is known not to define a name that is not in its text.
    """
    texts = {path: path.read_bytes() for path in sources if path.suffix}
    found: set[Path] = set()
    for name in _names(dag_id):
        token = re.compile(rb"(?<![\w-])%b(?![\w-])|%b" % (re.escape(name).encode(), _ESCAPE))
        files = {path for path, text in texts.items() if path.stem == name or token.search(text)}
        found |= files
        if files:
            yield _only(sources, files)
    # To ask a module means to import it.
    yield _only(sources, found | (sources.keys() - texts.keys()))


def _names(dag_id: str) -> list[str]:
    """Return what may be the name in the id of a Dag, which is `<name>_<role>`; the longest first."""
    return [dag_id, *(dag_id[: end.start()] for end in reversed(list(re.finditer("_", dag_id))))]


def _only(sources: Mapping[Path, Load], paths: Iterable[Path]) -> dict[Path, Load]:
    return {path: load for path, load in sources.items() if path in paths}
