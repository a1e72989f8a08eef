"""Every error that a program may want to catch. All of them are `WorkOrdersError`."""

from workorders.core.exceptions import (
    ConfigurationError,
    DuplicateItemsError,
    LimitReachedError,
    SchemaError,
    UnknownNameError,
    WorkOrdersError,
)
from workorders.core.worker.exceptions import NonRetryableError
from workorders.outbox.exceptions import (
    OutboxContradictionError,
    OutboxDecisionError,
    OutboxFencedError,
    OutboxIdentityError,
    OutboxMessageError,
)

__all__ = [
    "ConfigurationError",
    "DuplicateItemsError",
    "LimitReachedError",
    "NonRetryableError",
    "OutboxContradictionError",
    "OutboxDecisionError",
    "OutboxFencedError",
    "OutboxIdentityError",
    "OutboxMessageError",
    "SchemaError",
    "UnknownNameError",
    "WorkOrdersError",
]
