"""Writes what a run has measured into the page that compares this package with others."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from compare import speed
from compare.cases import FAULTS
from compare.peer import Peer
from compare.results import Result
from compare.speed import Speed
from local_stack.stack import CHECKOUT

PAGE: Final = CHECKOUT / "docs" / "explanation" / "comparison.md"
_BEGIN: Final = "<!-- measured: faults -->"
_END: Final = "<!-- end -->"
_PART: Final = re.compile(f"{_BEGIN}.*?{_END}", re.DOTALL)
_LEGEND: Final = """\
## Under the same faults

Each tool read the messages of a topic and wrote a row for each. `0` means that every message had exactly one row, in
the order of its key, and that every bad message was kept. Otherwise a cell contains what was different:

- **lost**: no row, and the tool continued. **doubled**: rows too many. *silently*: the log has no error about it.
- *overtaken*: a row came after that of a later message with the same key.
- *stopped*: the tool does not continue, and an operator can see it. The messages are still in Kafka.
- *failed, kept*: a person can find the message in the tool, and repeat it.
- *bad gone*: messages that are no JSON object, and that the tool does not have.
- *after*: what an operator had to do, as the tool documents it, or what else had to come.
"""
_SPEEDS: Final = """\
The speed of the same tools, each alone: a backlog of 10,000 messages, or what a tool did of it in half a minute; and
then five messages per second. This package and DBOS call a function for each message; the others write rows alone. The
time and the memory of Airflow are not included; see [what it costs](what-it-costs.md). Airflow's trigger was not
measured.
"""


def write(
    results: Sequence[Result], speeds: Sequence[Speed], peers: Mapping[str, Peer], about: Mapping[str, object]
) -> Path:
    """Replace the measured part of the page, or append it to a page that has none."""
    text = PAGE.read_text(encoding="utf-8")
    names = {slug: peer.name for slug, peer in peers.items()}
    shown = {result.peer: names[result.peer] for result in results}
    fast = [_SPEEDS, speed.table(speeds, names)] if speeds else []
    tools = _tools([peers[slug] for slug in shown])
    lines = [_BEGIN, "", _LEGEND, table(results, shown), *fast, tools, *_conditions(results, about), "", _END]
    part = "\n".join(lines)
    whole = _PART.sub(lambda _: part, text) if _PART.search(text) else f"{text.rstrip()}\n\n{part}\n"
    PAGE.write_text(whole, encoding="utf-8")
    return PAGE


def table(results: Sequence[Result], names: Mapping[str, str]) -> str:
    """Return a row for each fault, and a column for each tool."""
    cells = {(result.fault, result.peer): result.shown for result in results}
    rows = [
        f"| {FAULTS[fault].name} | {' | '.join(cells.get((fault, peer), 'not measured') for peer in names)} |"
        for fault in dict.fromkeys(result.fault for result in results)
    ]
    return "\n".join([f"| fault | {' | '.join(names.values())} |", f"| --- |{' --- |' * len(names)}", *rows, ""])


def _tools(peers: Iterable[Peer]) -> str:
    lines = [f"- **{peer.name}** ({peer.version()}): {peer.settings}." for peer in peers]
    return "\n".join(["The tools were configured as they document it:", "", *lines, ""])


def _conditions(results: Sequence[Result], about: Mapping[str, object]) -> list[str]:
    sizes = [result.verdict.messages + result.verdict.bad for result in results if result.verdict]
    return [
        f"`make compare` wrote this part. Each case has {min(sizes):,} messages or more in 3 partitions with 12 keys.",
        "Half of them are in transactions. Five of 25 are bad, each in another way.",
        "A supervisor starts an ended process again, twice at most.",
        "The tasks of this package's Dags ran without Airflow.",
        "What is lost was measured twice, and a cell contains both results if they differ.",
        "",
        f"{about['conditions']}; Kafka 4.3.1, PostgreSQL 18.",
    ]
