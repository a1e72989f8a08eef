"""Claims, ends, deaths and reruns at random, by several workers at once: what must hold whatever happens.

Each worker writes down, outside the database, when it begins and ends a run. The record is then checked by arithmetic.
"""

import json
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from random import Random
from threading import Lock
from typing import Any
from uuid import UUID

import psycopg
import pytest

from local_stack.stack import LocalStack
from support.working import Working
from workorders.core import workers
from workorders.core.items import Item
from workorders.core.postgres.connection import Connection, connect
from workorders.core.runs import claiming, lifecycle
from workorders.core.runs.claiming import ClaimedRun
from workorders.core.runs.lifecycle import RunResult
from workorders.core.workers import add_worker

pytestmark = pytest.mark.integration

WORKERS = 3
WORK_ORDERS = 90
ORDERING_KEYS = 6
STREAMS = 5
"""Each ordering key has work orders of each stream."""
LEFT_AND_CLAIMED = """
    SELECT
        (SELECT count(*) FROM workorders.work_orders WHERE workflow_id = %(workflow_id)s AND state <> 'success'),
        (SELECT count(*) FROM workorders.runs
            WHERE workflow_id = %(workflow_id)s AND worker_id IS NOT NULL AND finished_at IS NULL)
"""


@dataclass
class Record:
    """What the workers did, in the order of their moments."""

    lock: Lock = field(default_factory=Lock)
    at_work: dict[UUID, ClaimedRun] = field(default_factory=dict)
    most_at_work: int = 0
    succeeded: dict[tuple[int | None, str | None], list[int | None]] = field(default_factory=lambda: defaultdict(list))
    """Positions by ordering key and stream, in the order in which they succeeded."""
    faults: list[str] = field(default_factory=list)

    def begin(self, run: ClaimedRun) -> None:
        with self.lock:
            for other in self.at_work.values():
                if other.work_order_id == run.work_order_id:
                    self.faults.append(f"position {run.position} was worked on twice at once")
                if other.ordering_key is not None and other.ordering_key == run.ordering_key:
                    self.faults.append(
                        f"{run.position} and {other.position} have one ordering key and were worked on at once"
                    )
            self.at_work[run.run_id] = run

    def see(self, at_work: int) -> None:
        with self.lock:
            self.most_at_work = max(self.most_at_work, at_work)

    def end(self, run: ClaimedRun, *, success: bool = False) -> None:
        with self.lock:
            del self.at_work[run.run_id]
            if success:
                self.succeeded[run.ordering_key, run.stream].append(run.position)


class Worker:
    """Claims groups until nothing is left, and dies in the midst of one now and then."""

    def __init__(self, connection: Connection, at: Working, record: Record, random: Random) -> None:
        self._connection, self._at, self._record, self._random = connection, at, record, random

    def work(self, done: Callable[[], bool]) -> None:
        while not done():
            try:
                self._work_once()
            except psycopg.errors.DeadlockDetected:
                self._record.faults.append("two workers locked the same rows in different orders")
                return

    def _work_once(self) -> None:
        worker_id = add_worker(self._connection, self._at.workflow)
        self._connection.commit()
        claimed = claiming.claim(
            self._connection, self._at.workflow, limit=self._random.randint(1, 8), worker_id=worker_id
        )
        if self._random.random() < 0.1:
            self._connection.rollback()
            return
        self._connection.commit()
        for run in claimed:
            if self._random.random() < 0.05:
                self._die(worker_id)
                return
            self._work_on(worker_id, run)

    def _work_on(self, worker_id: UUID, run: ClaimedRun) -> None:
        owned = lifecycle.start(self._connection, worker_id, [run.run_id])
        self._connection.commit()
        if not owned:
            return
        self._record.begin(run)
        workers.record_heartbeat(self._connection, worker_id)  # time in which another worker could begin the same
        self._connection.commit()
        state: lifecycle.FinalState = self._random.choices(("success", "failed", "crashed"), (8, 1, 1))[0]
        self._record.end(run, success=state == "success")
        lifecycle.finish(self._connection, worker_id, [RunResult(run_id=run.run_id, state=state)])
        self._connection.commit()

    def _die(self, worker_id: UUID) -> None:
        """Fall silent; another worker finds it, at a grace that only this group has used up."""
        self._connection.execute(
            "UPDATE workorders.workers SET heartbeat_at = heartbeat_at - interval '1 h' WHERE id = %s", (worker_id,)
        )
        lifecycle.recover_lost(self._connection, self._at.workflow)
        self._connection.commit()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "fields",
    [{}, {"concurrency": 2}, {"ordering_key": "key"}, {"ordering_key": "key", "concurrency": 3}],
    ids=json.dumps,
)
def test_whatever_happens_no_run_is_worked_on_twice_at_once_and_neither_concurrency_nor_order_is_broken(
    stack: LocalStack, connection: Connection, name: str, fields: dict[str, Any], seed: int
) -> None:
    retries = {"max_retries": 1000, "first_delay": 0}
    at = Working.on(connection, name, retries=retries, **fields)
    random = Random(seed)
    places = list(range(WORK_ORDERS))
    chunks = [places[start : start + 10] for start in range(0, WORK_ORDERS, 10)]
    random.shuffle(chunks)  # by clocks that differ: what comes first in the source was not made first
    for chunk in chunks:
        at.create(
            Item(f"s{place % STREAMS}", place, b'{"key": "%d"}' % (place % ORDERING_KEYS), b"{}") for place in chunk
        )
    record = Record()
    deadline = time.monotonic() + 240

    def work(number: int) -> None:
        with connect(stack.database_url) as own, connect(stack.database_url, autocommit=True) as looking:

            def done() -> bool:
                left, claimed = looking.execute(LEFT_AND_CLAIMED, {"workflow_id": at.workflow.id}).fetchone() or (0, 0)
                record.see(claimed)
                return left == 0 or time.monotonic() > deadline or bool(record.faults)

            Worker(own, at.through(own), record, Random(seed * 100 + number)).work(done)

    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(work, range(WORKERS)))
    assert record.faults == []
    assert set(at.states()) == {"success"}, "something was never worked on"
    assert record.most_at_work <= fields.get("concurrency", WORK_ORDERS)
    done = [place for order in record.succeeded.values() for place in order]
    assert sorted(done, key=str) == sorted(places, key=str), "a run succeeded twice, or never"
    if "ordering_key" in fields:
        for key_and_stream, order in record.succeeded.items():
            assert order == sorted(order, key=lambda place: place or 0), f"{key_and_stream} was not in its order"
    unfinished = connection.execute(
        "SELECT count(*) FROM workorders.runs WHERE workflow_id = %s AND finished_at IS NULL", (at.workflow.id,)
    ).fetchone()
    assert unfinished == (0,)
