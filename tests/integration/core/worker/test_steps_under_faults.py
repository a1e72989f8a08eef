"""A worker, its processes, and its connections end at random; what its functions have done is counted."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import psycopg
import pytest

from local_stack.stack import LocalStack
from support.executing import Executing
from support.proxies import LosingProxy
from support.step_functions import CONNECTION, user_database
from workorders.core.postgres.connection import connect
from workorders.core.runs import lifecycle

pytestmark = pytest.mark.integration

_START_SECONDS = 4.0
LEFT = "SELECT count(*) FROM workorders.work_orders WHERE workflow_id = %(workflow_id)s AND state <> 'success'"
STORED_BY = """
SELECT dataclips.body ->> 'order', runs.attempt
FROM workorders.steps
JOIN workorders.runs ON runs.id = steps.run_id
JOIN workorders.dataclips ON dataclips.id = steps.work_order_id
WHERE runs.workflow_id = %(workflow_id)s AND steps.name = 'line'
"""
SENT = "SELECT convert_from(key, 'UTF8') FROM workorders.outbox_messages WHERE topic = 'shipments'"
WORKER = """
import sys
from support.executing import Executing
from workorders.outbox.enqueue import enqueue_published
from workorders.core import workflows
from workorders.core.postgres.connection import connect
from workorders.core.worker.worker import Worker
url, shop, name = sys.argv[1:]
with connect(url) as connection:
    workflow = workflows.find(connection, name)
Worker(workflow, database_url=url, user_database=shop, enqueue=enqueue_published).work()
"""


class Faults:
    """Executes the work orders of a workflow by one worker after the other, and ends what belongs to it at random."""

    def __init__(self, executing: Executing, shop: str, seed: int, orders: int) -> None:
        self.executing = executing
        self.injected: Counter[str] = Counter()
        self._orders = orders
        self._random = random.Random(seed)
        self._shop = shop
        self._proxies = LosingProxy(executing.url), LosingProxy(shop)
        for proxy in self._proxies:
            proxy.losses = self.injected
        self._worker = self._start()
        self._zombies: list[subprocess.Popen[bytes]] = []

    def run(self) -> None:
        """Inject faults, and then let all work orders succeed."""
        until = time.monotonic() + 600 + self._orders / 5
        while self.executing.rows(LEFT) != [(0,)]:
            assert time.monotonic() < until, "it does not end"
            time.sleep(self._random.uniform(0.2, 2))
            if self._worker.poll() is not None:
                self._worker = self._start()
            if self.injected.total() >= self._orders / 20 and self.injected["process killed"]:
                continue
            self._kill_process()
            faults = [self._kill_worker, self._end_session, self._lose, self._lose, self._cut, self._freeze]
            fault: Any = self._random.choice(faults)
            fault()
        for zombie in self._zombies:
            zombie.wait(60)

    def close(self) -> None:
        """End everything."""
        for worker in (self._worker, *self._zombies):
            worker.kill()
            worker.wait()
        for proxy in self._proxies:
            proxy.close()

    def _start(self) -> "subprocess.Popen[bytes]":
        with connect(self.executing.url) as connection:
            connection.execute("UPDATE workorders.workers SET expires_at = now() - interval '1 s'")
            lifecycle.recover_lost(connection, self.executing.workflow)
        urls = [proxy.url for proxy in self._proxies]
        return subprocess.Popen([sys.executable, "-c", WORKER, *urls, self.executing.name], stderr=subprocess.DEVNULL)

    def _kill_process(self) -> None:
        try:
            processes = [
                process
                for process in psutil.Process(self._worker.pid).children()
                # One that has not begun is replaced three times, and then the worker ends.
                if time.time() - process.create_time() > _START_SECONDS
            ]
        except psutil.NoSuchProcess:
            return
        if processes and self._random.random() < (0.4 if self.injected["process killed"] else 1):
            self._random.choice(processes).send_signal(signal.SIGKILL)
            self.injected["process killed"] += 1

    def _kill_worker(self) -> None:
        if self._random.random() < 0.3:
            self._worker.kill()
            self._worker.wait()
            self.injected["worker killed"] += 1

    def _freeze(self) -> None:
        """Stop a worker and its processes, let another one execute their runs, and wake them up."""
        if self._random.random() > 0.3:
            return
        frozen = [self._worker.pid, *(process.pid for process in psutil.Process(self._worker.pid).children())]
        _signal(frozen, signal.SIGSTOP)
        self._zombies.append(self._worker)
        self._worker = self._start()
        time.sleep(self._random.uniform(1, 8))
        _signal(frozen, signal.SIGCONT)
        self.injected["zombies"] += 1

    def _cut(self) -> None:
        with self._random.choice(self._proxies).unreachable():
            time.sleep(self._random.uniform(0, 3))
        self.injected["databases lost"] += 1

    def _end_session(self) -> None:
        url = self._random.choice([self.executing.url, self._shop])
        with psycopg.connect(url, autocommit=True) as connection:
            ended = connection.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                "WHERE datname = current_database() AND application_name IN ('workorders execute', 'workorders run')"
            ).fetchone()
        self.injected["sessions ended"] += ended[0] if ended else 0

    def _lose(self) -> None:
        proxy = self._random.choice(self._proxies)
        proxy.lose(self._random.choice(["request", "answer"]))
        # One that comes later, on a busy machine, is lost as well, and then counted.
        proxy.lost.wait(0.5)


def _signal(processes: list[int], number: signal.Signals) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, number)


@pytest.mark.parametrize(
    "count", [400, pytest.param(10_000, marks=[pytest.mark.long, pytest.mark.timeout(7_200)])], ids=["short", "long"]
)
def test_rows_and_messages_are_written_once_whatever_ends_at_any_moment(
    stack: LocalStack, name: str, tmp_path: Path, count: int
) -> None:
    shop, file = user_database(stack, f"shop-{uuid4().hex[:8]}"), tmp_path / "lines"
    executing = Executing(
        stack.database_url,
        name,
        None,
        callable="support.step_functions:ship",
        processes=2,
        linger=5,
        database=CONNECTION,
        retries={"max_retries": 1000, "first_delay": 0},
    )
    orders = [f"{name}-{number}" for number in range(count)]
    executing.create({"order": order, "file": str(file), "seconds": 0.02} for order in orders)
    seed = random.SystemRandom().randrange(1_000_000)
    print("Seed", seed)
    faults = Faults(executing, shop, seed, count)
    try:
        faults.run()
    finally:
        faults.close()
    print(faults.injected)
    assert faults.injected["process killed"]
    with psycopg.connect(shop) as connection:
        numbers: list[Any] = connection.execute("SELECT name, number FROM counters").fetchall()
    assert sorted(numbers) == sorted((order, 1) for order in orders)
    assert sorted(key for (key,) in executing.rows(SENT) if key in orders) == sorted(orders)
    lines = Counter(line.split()[0] for line in file.read_text().splitlines())
    # Besides the attempt that stored the step, only those before it, which were interrupted, may have written a line.
    attempts: dict[str, int] = dict(executing.rows(STORED_BY))
    assert set(lines) == set(attempts) == set(orders)
    assert [order for order in orders if lines[order] > attempts[order]] == []
    # Each fault interrupts at most one call in each of the two processes.
    assert lines.total() - count <= 2 * faults.injected.total()
