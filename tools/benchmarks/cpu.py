"""What work on one Postgres session costs: time, and CPU of this process and of the session's backend."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil

from workorders.core.postgres.connection import Connection


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds by the clock, and of CPU."""

    seconds: float
    client_seconds: float
    backend_seconds: float


def cost(connection: Connection, work: Callable[[], object]) -> Cost:
    """Do the work and commit; return what both cost."""
    backend = psutil.Process(connection.info.backend_pid)
    spent, begun, cpu = sum(backend.cpu_times()[:2]), time.monotonic(), time.process_time()
    work()
    connection.commit()
    return Cost(time.monotonic() - begun, time.process_time() - cpu, sum(backend.cpu_times()[:2]) - spent)
