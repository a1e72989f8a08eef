"""The states of work orders and runs, in the order in which people see them."""

from enum import StrEnum
from typing import Final

WorkOrderState = StrEnum(
    "WorkOrderState",
    "PENDING REQUEUED RUNNING SUCCESS FAILED CRASHED KILLED CANCELLED LOST EXCEPTION REJECTED PARKED",
)
"""The state of a work order, as Postgres stores it."""

WAITING: Final = frozenset({"pending", "requeued"})
"""Work orders that wait for a run: for their first one, or for one that has a row."""
UNFINISHED: Final = WAITING | {"running", "parked"}

RunState = StrEnum("RunState", "AVAILABLE CLAIMED STARTED SUCCESS FAILED CRASHED CANCELLED KILLED LOST EXCEPTION")
"""The state of a run, as Postgres stores it."""

OWNER_GONE: Final = "owner gone"
"""Shown for a run whose worker sends no heartbeat any more, until it is recovered; Postgres stores no such state."""
