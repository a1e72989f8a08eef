"""The states of work orders and runs, in the order in which people see them."""

from enum import StrEnum


class WorkOrderState(StrEnum):
    """The state of a work order, as Postgres stores it."""

    PENDING = "pending"
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
