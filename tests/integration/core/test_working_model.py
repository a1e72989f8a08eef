"""Claims, failures, time slices, stops, kills, and lost answers to COMMIT by chance: what must hold whatever happens.

Workers are separate processes, behind a proxy that loses answers. What their functions note is then checked.
"""

import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import psutil
import pytest

from support.alive import is_alive
from support.eventually import eventually
from support.proxies import LosingProxy
from support.workers_by_chance import recover
from support.working import Working
from workorders.core.items import Item
from workorders.core.postgres.connection import connect
from workorders.core.states import UNFINISHED

pytestmark = pytest.mark.integration

SEEDS = int(os.environ.get("WORKING_MODEL_SEEDS", "1"))
"""More of them look for longer."""
WORKERS = 3
WORK_ORDERS = 200
LOST_SHARE = 0.3
"""Of the COMMITs, or of the answers to them."""
KILL_SECONDS = (5, 15)
"""Between two kills of a worker; with fewer seconds, few workers live until they have runs behind a failed one."""
ORDERING_KEYS = 4
STREAMS = 3
"""Each ordering key has work orders of each stream."""
SECONDS = 600
RETRIES = {"max_retries": 1000, "first_delay": 0, "after": ["failed", "crashed", "lost"]}
LEFT = "SELECT count(*) FROM workorders.work_orders WHERE workflow_id = %s AND state::text = ANY (%s)"


class WorkerProcess:
    """A process of workers that ends when it is killed."""

    def __init__(self, proxy: LosingProxy, name: str, folder: Path, seed: str) -> None:
        self._database_url, self._name, self._folder = proxy.database_url, name, folder
        self._log = (folder / f"log-{seed}").open("w")
        arguments = [proxy.database_url, proxy.url, name, str(folder), seed]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.workers_by_chance", *arguments], stdout=self._log, stderr=self._log
        )

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def kill(self) -> None:
        """Kill it, and recover its runs when the kernel has killed its processes."""
        pid = self._process.pid
        functions = [child.pid for child in psutil.Process(pid).children()]
        self._process.kill()
        self._process.wait()
        self._log.close()
        eventually(lambda: not any(map(is_alive, functions)), seconds=30, what="their end", every=0.01)
        if (worker := self._folder / str(pid)).exists() and (id_ := worker.read_text()):
            recover(self._database_url, self._name, UUID(id_))


@contextmanager
def working(proxy: LosingProxy, name: str, folder: Path, random: Random) -> Iterator[list[WorkerProcess]]:
    """Yield processes of workers, and kill at the end those that are there then."""
    processes: list[WorkerProcess] = []
    try:
        processes.extend(WorkerProcess(proxy, name, folder, str(random.random())) for _ in range(WORKERS))
        yield processes
    finally:
        for process in processes:
            process.kill()


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"concurrency": 2, "retries": RETRIES}, id="concurrency", marks=pytest.mark.long),
        pytest.param({"ordering_key": "body:/key", "retries": RETRIES}, id="ordering key", marks=pytest.mark.long),
        pytest.param(
            {"ordering_key": "body:/key", "concurrency": 3, "retries": RETRIES}, id="ordering key and concurrency"
        ),
        pytest.param({"ordering_key": "body:/key"}, id="at most once"),
    ],
)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_happens_no_run_begins_twice_or_beside_another_and_neither_concurrency_nor_order_is_broken(
    database_url: str, name: str, tmp_path: Path, fields: dict[str, Any], seed: int
) -> None:
    random = Random(f"{fields} {seed}")
    proxy = LosingProxy(database_url, random, LOST_SHARE)
    with connect(database_url) as connection, proxy:
        at = Working.on(connection, name, callable="support.run_functions:work_alone", processes=2, **fields)
        _create(at, tmp_path, random)

        def left() -> int:
            (count,) = connection.execute(LEFT, (at.workflow.id, list(UNFINISHED))).fetchone() or (0,)
            connection.commit()
            return int(count)

        deadline = time.monotonic() + SECONDS
        with working(proxy, name, tmp_path, random) as processes:
            kill_at = time.monotonic() + random.uniform(*KILL_SECONDS)
            while left():
                assert time.monotonic() < deadline, "something was never executed"
                assert not any(process.has_ended for process in processes), "a process of workers has ended"
                time.sleep(0.2)
                if time.monotonic() > kill_at:
                    place = random.randrange(WORKERS)
                    processes[place].kill()
                    processes[place] = WorkerProcess(proxy, name, tmp_path, str(random.random()))
                    kill_at = time.monotonic() + random.uniform(*KILL_SECONDS)
        assert proxy.lost.is_set()
        states, stored = set(at.states()), at.runs()

    begun = [json.loads(line) for line in (tmp_path / "begun").read_text().splitlines()]
    assert [line for line in begun if line[-1]] == []
    runs = [(position, attempt) for _, _, position, attempt, _ in begun]
    assert len(set(runs)) == len(runs), "a run began twice"
    assert {(position, attempt) for position, attempt, state in stored if state == "success"} <= set(runs)
    assert {state for _, _, state in stored} <= {"success", "failed", "crashed", "lost"}
    if "retries" in fields:
        assert states == {"success"}
    else:
        assert {attempt for _, attempt in runs} == {1}
    if "ordering_key" in fields:
        _require_order(begun)


def _create(at: Working, folder: Path, random: Random) -> None:
    """Create work orders as by clocks that differ: what comes first in the source was not made first."""
    definition = at.workflow.definition
    assert definition is not None
    shared = {
        "folder": str(folder),
        "has_order": definition.ordering_key is not None,
        "concurrency": definition.concurrency,
    }
    chunks = [range(start, start + 10) for start in range(0, WORK_ORDERS, 10)]
    random.shuffle(chunks)
    for chunk in chunks:
        events = [(place % ORDERING_KEYS, f"s{place % STREAMS}", place) for place in chunk]
        at.create(
            Item(stream, place, b"{}", json.dumps({"key": key, "stream": stream, "position": place, **shared}).encode())
            for key, stream, place in events
        )


def _require_order(begun: list[list[Any]]) -> None:
    """Make sure that within a key and a stream each last attempt began after those of all positions before."""
    last = {position: number for number, (_, _, position, *_) in enumerate(begun)}
    order: dict[tuple[int, str], list[int]] = defaultdict(list)
    for number, (key, stream, position, *_) in enumerate(begun):
        if last[position] == number:
            order[key, stream].append(position)
    for key_and_stream, positions in order.items():
        assert positions == sorted(positions), f"{key_and_stream} was not in its order"
