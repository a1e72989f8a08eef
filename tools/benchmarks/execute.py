"""Runs of a function that does nothing: by warm processes alone, and with claim, start and end in Postgres."""

import multiprocessing
import os
import resource
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import psutil

from benchmarks.create_for import empty_tables
from local_stack.stack import LocalStack
from support.claimed_runs import calling, results, run_of
from support.step_functions import CONNECTION, user_database
from workorders.core import triggers, workflows
from workorders.core.creation.work_orders import create_for
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.items import Item
from workorders.core.postgres.connection import Connection, connect
from workorders.core.worker.process_pool import ProcessPool
from workorders.core.worker.worker import Worker

_NAME: Final = "execute"
_BODY: Final = b'{"resourceType":"Observation","note":"%b"}' % (b"x" * 300)
_STEPS: Final[Mapping[str, Mapping[str, Any]]] = {
    "no step": {"callable": "support.run_functions:echo", "processes": 1},
    # A function that waits for a commit leaves a core to others, and commits together are one write to the disk.
    "a step": {"callable": "support.step_functions:no_op_step", "processes": 8},
    "a transaction": {
        "callable": "support.step_functions:no_op_transaction",
        "processes": 8,
        "database": CONNECTION,
    },
}
_REQUEST: Final = b'{"topic":"observations","partition":0,"key":"patient-0001","headers":[]}'


@dataclass(frozen=True, slots=True)
class Executed:
    """What executing some runs took."""

    runs: int
    seconds: float
    group_seconds: float
    """CPU of the process that claims and stores."""
    callable_seconds: float
    """CPU of the processes that the function runs in."""
    postgres_seconds: float
    """CPU of Postgres."""

    @property
    def per_second(self) -> float:
        """Runs a second."""
        return self.runs / self.seconds

    @property
    def microseconds(self) -> tuple[float, float, float]:
        """CPU a run: of the group's process, of the function's processes, of Postgres."""
        parts = (self.group_seconds, self.callable_seconds, self.postgres_seconds)
        return parts[0] / self.runs * 1e6, parts[1] / self.runs * 1e6, parts[2] / self.runs * 1e6


def pool_per_second(count: int) -> float:
    """Return how many runs a second warm processes alone execute."""
    runs = [run_of({"note": "x" * 300}) for _ in range(count)]
    with ProcessPool(calling("echo")) as pool:
        # The first one, for which the process has to start, is not measured.
        results(pool, runs[:1])
        begun = time.monotonic()
        results(pool, runs[1:])
        return (count - 1) / (time.monotonic() - begun)


def through_postgres(stack: LocalStack, count: int, what: str = "no step") -> Executed:
    """Execute that many waiting work orders with a function that does `what`."""
    with connect(stack.database_url) as connection:
        empty_tables(connection)
        connection.execute("TRUNCATE workorders.runs, workorders.run_results CASCADE")
        _create(connection, count, _STEPS[what])
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    before = _postgres_seconds(stack)
    process = context.Process(
        target=_work, args=(stack.database_url, user_database(stack, f"steps_{uuid4().hex}"), results)
    )
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError("Executing runs failed; see above.")
    seconds, group_seconds, callable_seconds, done = results.get()
    if done != count:
        raise RuntimeError(f"{done} runs of {count} have succeeded.")
    return Executed(count, seconds, group_seconds, callable_seconds, _postgres_seconds(stack) - before)


def _create(connection: Connection, count: int, fields: Mapping[str, Any]) -> None:
    definition = WorkflowDefinition.model_validate({"name": _NAME, "linger": 0, **fields})
    workflows.register(connection, definition)
    trigger = triggers.register(connection, name=_NAME, type_="kafka", workflow=_NAME, definition={})
    create_for(connection, trigger, (Item(None, None, _REQUEST, _BODY) for _ in range(count)), fresh=True)
    connection.commit()
    connection.autocommit = True
    # What autovacuum would do in a minute.
    connection.execute("VACUUM (ANALYZE) workorders.work_orders, workorders.dataclips, workorders.runs")


def _work(
    database_url: str, user_database: str, results: "multiprocessing.SimpleQueue[tuple[float, float, float, int]]"
) -> None:
    with connect(database_url) as connection:
        workflow = workflows.find(connection, _NAME)
    group = Worker(workflow, database_url=database_url, enqueue=lambda *_: None, user_database=user_database)
    begun, cpu = time.monotonic(), time.process_time()
    tally = group.work()
    seconds, cpu = time.monotonic() - begun, time.process_time() - cpu
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    results.put((seconds, cpu, children.ru_utime + children.ru_stime, tally.states["success"]))


def _postgres_seconds(stack: LocalStack) -> float:
    """Return the CPU time of all of Postgres's processes, those that have ended included."""
    total = 0.0
    for process in psutil.Process(stack.supervisor_pid).children(recursive=True):
        try:
            if process.name() != "postgres":
                continue
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
        if process.pid == os.getpgid(process.pid):
            total += times.children_user + times.children_system
    return total
