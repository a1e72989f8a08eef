"""How fast each tool is, and what it takes: a backlog, a steady stream, and memory while it waits."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import median
from typing import Final

from benchmarks.figures import percentile
from benchmarks.stack_processes import cpu_seconds, memory_mib
from compare.case import KEYS, PARTITIONS, Case
from compare.oracle import Sent
from compare.peer import Peer
from faults.contents import ACCEPTED, kind, value
from faults.site import Site
from local_stack.waiting import wait_until

_BACKLOG: Final = 10_000
_BACKLOG_SECONDS: Final = 30.0
"""Time after the first row. A slower tool is measured with what it did."""
_WARM_UP: Final = 100
_PER_SECOND: Final = 5
_SECONDS: Final = 20
_PRODUCER: Final = 1_001
_RATE: Final = "SELECT count(*), extract(epoch FROM max(at) - min(at))::float8 FROM {table} WHERE body IS NOT NULL"
_TIMES: Final = """
    SELECT (body ->> 'seq')::integer, extract(epoch FROM at)::float8
    FROM {table} WHERE (body ->> 'producer')::integer = %(producer)s
"""


@dataclass(frozen=True, slots=True)
class Speed:
    """What was measured of one tool."""

    peer: str
    per_second: float
    """Rows per second of a backlog, between the first and the last."""
    cpu_ms: float
    """CPU per message of the backlog, start-up included, in all of the tool's processes."""
    median_seconds: float
    """From a message to its row, at five messages per second."""
    p95_seconds: float
    memory_mib: float
    """Of the tool's processes while they wait."""
    parts: int
    """Distributions or jars of an installation."""


def measure(site: Site, peer: Peer) -> Speed:
    """Measure one tool, while nothing else works on the stack.

    There is no proxy for faults: it takes more time than some of the tools.

    Raises:
        AssertionError: a row of the steady stream is missing at the end.
    """
    rows, seconds, cpu = _backlog(site, peer)
    with Case(site, peer, "steady", random=Random(1), messages=_WARM_UP, is_brief=False) as case:
        case.start()
        case.produce()
        case.finish()
        waits = _waits(case)
        return Speed(
            peer.slug,
            per_second=rows / seconds,
            cpu_ms=1e3 * cpu / rows,
            median_seconds=median(waits),
            p95_seconds=percentile(waits, 95),
            memory_mib=sum(map(memory_mib, case.pids())),
            parts=peer.parts(),
        )


def _backlog(site: Site, peer: Peer) -> tuple[int, float, float]:
    """Return how many rows a tool wrote of a backlog, in how many seconds, and with how many seconds of CPU."""
    # A proxy is for faults, and takes more time than some of the tools.
    with Case(site, peer, "backlog", random=Random(1), messages=_BACKLOG, is_brief=False) as case:
        case.produce()
        case.start()
        case.until_rows()
        wait_until(lambda: case.rows() >= case.due(), seconds=_BACKLOG_SECONDS)
        cpu = sum(map(cpu_seconds, case.pids()))
        ((rows, seconds),) = site.admin(_RATE.format(table=case.table))
        return rows, seconds, cpu


def _waits(case: Case) -> list[float]:
    """Produce evenly, and return how long each message took to its row."""
    produced: dict[int, float] = {}
    begun = time.monotonic()
    numbers = [number for number in range(2 * _PER_SECOND * _SECONDS) if kind(number) == ACCEPTED]
    for count, number in enumerate(numbers[: _PER_SECOND * _SECONDS]):
        time.sleep(max(0.0, begun + count / _PER_SECOND - time.monotonic()))
        produced[number] = time.time()
        message = Sent(_PRODUCER, number, ACCEPTED, f"{number % KEYS}")
        case.produce_value(value(_PRODUCER, number), message, number % PARTITIONS)
    verdict = case.settle()
    assert not verdict.lost, f"{case.peer.name} has {verdict}"
    found = case.site.admin(_TIMES.format(table=case.table), {"producer": _PRODUCER})
    return [at - produced[number] for number, at in found]


def table(speeds: Sequence[Speed], names: Mapping[str, str]) -> str:
    """Return the table of the page."""
    rows = [
        f"| {names[speed.peer]} | {speed.per_second:,.0f} | {speed.cpu_ms:.1f} | {speed.median_seconds:.1f} "
        f"| {speed.p95_seconds:.1f} | {speed.memory_mib:,.0f} | {speed.parts} |"
        for speed in speeds
    ]
    heads = (
        "tool",
        "backlog, rows/s",
        "CPU, ms per message",
        "message to row: median, s",
        "p95, s",
        "memory, MiB",
        "distributions",
    )
    return "\n".join([f"| {' | '.join(heads)} |", "| --- |" + " ---: |" * (len(heads) - 1), *rows, ""])
