"""The states of work orders and runs, in the order in which people see them."""

from enum import StrEnum
from typing import Final


class WorkOrderState(StrEnum):
    """The state of a work order, as Postgres stores it."""

    PENDING = "pending"
    REQUEUED = "requeued"
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"
    CRASHED = "crashed"
    KILLED = "killed"
    CANCELLED = "cancelled"
    LOST = "lost"
    EXCEPTION = "exception"
    REJECTED = "rejected"
    PARKED = "parked"


WAITING: Final = frozenset({"pending", "requeued"})
"""Work orders that wait for a run: for their first one, or for one that has a row."""
UNFINISHED: Final = WAITING | {"running", "parked"}


class RunState(StrEnum):
    """The state of a run, as Postgres stores it."""

    AVAILABLE = "available"
    CLAIMED = "claimed"
    STARTED = "started"
    SUCCESS = "success"
    FAILED = "failed"
    CRASHED = "crashed"
    CANCELLED = "cancelled"
    KILLED = "killed"
    LOST = "lost"
    EXCEPTION = "exception"


OWNER_GONE: Final = "owner gone"
"""Shown for a run whose worker sends no heartbeat any more, until it is recovered; Postgres stores no such state."""
