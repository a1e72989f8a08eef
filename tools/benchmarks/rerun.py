"""Bulk reruns among many finished work orders, and what they cost an ingest at the same time."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import count, pairwise
from threading import Event
from typing import Final

from benchmarks import many, messages
from workorders.core import triggers
from workorders.core.bulk import jobs, runner
from workorders.core.creation.work_orders import create_for
from workorders.core.history import work_orders
from workorders.core.history.filters import Filter
from workorders.core.postgres.connection import Connection, connect

_BATCH: Final = 1_000
_TOPIC: Final = "observations"


@dataclass(frozen=True, slots=True)
class Rerun:
    """What a bulk rerun took."""

    matched: int
    count_seconds: float
    """Until it was counted and written down, before it began."""
    done: int
    """Fewer than matched when the time was over before."""
    seconds: float
    slowest_step_seconds: float

    @property
    def per_second(self) -> float:
        return self.done / self.seconds


WITH_INGEST: Final = "a tenth, during an ingest"
"""The filter of the rerun during which an ingest continues."""


def filters(connection: Connection, rows: int) -> dict[str, Filter]:
    """Return which work orders are rerun, by name: no two of them have any in common."""
    end = work_orders.list_work_orders(connection, Filter(trigger=many.COMMON), limit=1)[0].created_at

    def tenth(number: int) -> datetime:
        return end - rows * many.BETWEEN * (10 - number) / 10

    hundredth = rows * many.BETWEEN / 100
    return {
        "a hundredth, by time": Filter(state="success", since=tenth(2), until=tenth(2) + hundredth),
        "a tenth, by time": Filter(state="success", since=tenth(3), until=tenth(4)),
        WITH_INGEST: Filter(state="success", since=tenth(5), until=tenth(6)),
        "one in 97, by a word": Filter(state="success", text="W11", until=tenth(2)),
    }


def rerun(url: str, wanted: Filter, seconds: float) -> Rerun:
    """Rerun for so long at most, and cancel the rest."""
    with connect(url, autocommit=True, application_name="benchmark") as connection:
        begun = time.monotonic()
        job = jobs.create_job(connection, "rerun", wanted, actor="benchmark", reason="benchmark")
        counted = time.monotonic() - begun
        steps: list[float] = []
        done = 0

        def note(now: jobs.Job) -> None:
            nonlocal done
            done = now.done
            steps.append(time.monotonic())
            if steps[-1] - begun > counted + seconds:
                jobs.cancel_job(connection, job.id)

        begun_working = time.monotonic()
        done = max(runner.run_job(connection, job.id, progress=note).done, done)
        ended = time.monotonic()
    times = [begun_working, *steps]
    slowest = max(after - before for before, after in pairwise(times))
    return Rerun(job.total, counted, done, ended - begun_working, slowest)


def ingest_during(url: str, wanted: Filter, seconds: float) -> tuple[list[float], list[float]]:
    """Return how long batches of a thousand take to be created, alone and while others are rerun, for so long each."""
    with _ingesting(url) as alone:
        time.sleep(seconds)
    with _ingesting(url) as during:
        rerun(url, wanted, seconds)
    return alone, during


@contextmanager
def _ingesting(url: str) -> Iterator[list[float]]:
    """Create work orders until the context is left; the list is how long each batch took."""
    stop, seconds = Event(), list[float]()
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(_ingest, url, stop, seconds)
        try:
            yield seconds
        finally:
            stop.set()
            ended.result()


def _ingest(url: str, stop: Event, seconds: list[float]) -> None:
    topic_id = time.time_ns()
    with connect(url) as connection:
        trigger = triggers.register(connection, name="during", type_="kafka", workflow="during", definition={})
        for number in count():
            items = list(messages.items(_TOPIC, 0, _BATCH, f"{_TOPIC}/{number}@{topic_id}"))
            begun = time.monotonic()
            create_for(connection, trigger, items, fresh=True)
            connection.commit()
            seconds.append(time.monotonic() - begun)
            if stop.is_set():
                return
