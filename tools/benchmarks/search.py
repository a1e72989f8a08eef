"""How fast people find work orders among many."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final

from benchmarks import many
from workorders.core.history import search_index, work_orders
from workorders.core.history.filters import Filter
from workorders.core.postgres.connection import Connection, connect

_PATIENTS: Final = 200_000
_PAGE: Final = 50


@dataclass(frozen=True, slots=True)
class Found:
    """What finding cost."""

    filled_per_second: float
    """Work orders whose words were added to the full text of all others, by one process."""
    milliseconds: Mapping[str, list[float]]
    """Times of a page of 50, by the kind of question."""
    counted_milliseconds: list[float]
    """Times of the counts by state at hand."""
    recount_seconds: float
    """Of counting all of them again."""
    bytes_a_work_order: float
    """Of the full text on the disk, with its indexes."""


def measure(url: str, rows: int, rounds: int, say: Callable[[str], None]) -> Found:
    """Ask questions, of which most pages are full, among as many finished work orders as `many` has made."""
    with connect(url, autocommit=True, application_name="benchmark") as connection:
        say("words of the newest work orders")
        filled = _fill(connection)
        begun = time.monotonic()
        work_orders.refresh_counts(connection, even_if_recent=True)
        recounting = time.monotonic() - begun
        say("questions")
        times = _ask(connection, rows, rounds)
        counted = [
            _milliseconds(lambda: work_orders.latest_counts(connection, workflow=many.COMMON)) for _ in range(rounds)
        ]
        size = connection.execute("SELECT pg_total_relation_size('workorders.search_words')").fetchone() or (0,)
        return Found(filled, times, counted, recounting, size[0] / rows)


def _fill(connection: Connection) -> float:
    begun, filled = time.monotonic(), 0
    while step := search_index.index_new(connection):
        filled += step
    return filled / (time.monotonic() - begun)


def questions(rows: int, chance: Random, end: datetime) -> dict[str, Callable[[], Filter]]:
    """Return what people ask, by the name of its kind.

    Args:
        rows: how many work orders there are.
        chance: picks what is asked for.
        end: when the newest of them was created.
    """

    def some_hour() -> dict[str, Any]:
        since = end - chance.random() * rows * many.BETWEEN
        return {"since": since, "until": since + timedelta(hours=1)}

    def positions(length: int) -> dict[str, Any]:
        first = chance.randrange(max(rows - length, 1))
        return {"from_position": first, "to_position": first + length}

    return {
        "newest": Filter,
        "state success": lambda: Filter(state="success"),
        "state failed": lambda: Filter(state="failed"),
        "state pending, of which there is none": lambda: Filter(state="pending"),
        "state rejected": lambda: Filter(state="rejected"),
        "a common reason": lambda: Filter(rejection="not-json"),
        "a rare reason": lambda: Filter(rejection="not-utf8"),
        "a common trigger": lambda: Filter(trigger=many.COMMON),
        "an old trigger": lambda: Filter(trigger=many.OLD),
        "a rare trigger": lambda: Filter(trigger=many.RARE),
        "a rare workflow, success": lambda: Filter(workflow=many.RARE, state="success"),
        "a rare trigger, failed": lambda: Filter(trigger=many.RARE, state="failed"),
        "an hour": lambda: Filter(**some_hour()),
        "an hour, failed": lambda: Filter(state="failed", **some_hour()),
        "a stream's positions from one on": lambda: Filter(
            stream="observations/", from_position=chance.randrange(rows)
        ),
        "a stream's hundred positions": lambda: Filter(stream="observations/", **positions(100)),
        "a stream's 10,000 positions": lambda: Filter(stream="observations/", **positions(10_000)),
        "an old stream": lambda: Filter(stream="old/"),
        "a word in each": lambda: Filter(text="stable"),
        "a word in one of 97": lambda: Filter(text=f"W{chance.randrange(97)}"),
        "a word in one of 5,000": lambda: Filter(text=f"N{chance.randrange(5000)}"),
        "a patient": lambda: Filter(text=f"PAT-{chance.randrange(min(_PATIENTS, rows)):06}"),
        "one event": lambda: Filter(text=f"EV-{chance.randrange(rows):09}"),
        "a word in none": lambda: Filter(text="anaphylaxis"),
        "three words": lambda: Filter(text=f"Ada Knuth N{chance.randrange(5000)}"),
        "two common words never together": lambda: Filter(text="admission discharge"),
        "a beginning": lambda: Filter(text=f"EV-{chance.randrange(rows):09}"[:-1] + "*"),
        "pending, and a ward": lambda: Filter(text=f"W{chance.randrange(97)}", state="pending"),
        "failed, and a ward": lambda: Filter(text=f"W{chance.randrange(97)}", state="failed"),
        "an old trigger, and a nurse": lambda: Filter(text=f"N{chance.randrange(5000)}", trigger=many.OLD),
        "a rare trigger, and a common word": lambda: Filter(text="stable", trigger=many.RARE),
        "an hour, and a ward": lambda: Filter(text=f"W{chance.randrange(97)}", **some_hour()),
        "an old stream, and a ward": lambda: Filter(text=f"W{chance.randrange(97)}", stream="old/"),
    }


def _ask(connection: Connection, rows: int, rounds: int) -> dict[str, list[float]]:
    newest = work_orders.list_work_orders(connection, Filter(), limit=1)[0]
    asked = questions(rows, Random(rows), newest.created_at)
    times: dict[str, list[float]] = {name: [] for name in asked}
    for _ in range(rounds):
        for name, question in asked.items():
            wanted = question()
            times[name].append(_milliseconds(lambda: work_orders.list_work_orders(connection, wanted, limit=_PAGE)))  # noqa: B023 - called at once
    return times


def _milliseconds(step: Callable[[], object]) -> float:
    begun = time.perf_counter()
    step()
    return (time.perf_counter() - begun) * 1000
