"""Finds workflows whose work orders could run while none does: a Dag that is paused or missing, or whose task fails."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from workorders.core.history.workload import Workload
from workorders.core.postgres.connection import Connection
from workorders.core.runs.claiming import claimable_statement

MAX_IDLE: Final = timedelta(minutes=5)
"""A scheduler and a worker that start need less."""


def find_idle(connection: Connection, workloads: Sequence[Workload], now: datetime) -> list[Workload]:
    """Return those of the workflows with a due work order older than `MAX_IDLE` and no run in progress.

    A work order whose retry is not due yet makes no workflow idle.
    """
    silent = {
        found.workflow: found
        for found in workloads
        if not found.running and found.oldest_waiting_at is not None and now - found.oldest_waiting_at > MAX_IDLE
    }
    if not silent:
        return []
    return [silent[name] for name, *_ in connection.execute(*claimable_statement(silent))]
