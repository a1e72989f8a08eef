"""Errors of the outbox."""

from workorders.core.exceptions import ConfigurationError, WorkOrdersError


class OutboxMessageError(ConfigurationError):
    """A message could never be sent; nothing of its call was enqueued."""


class OutboxFencedError(WorkOrdersError):
    """A newer relay has the shard; this one changed nothing there and must stop."""

    error_code = "WO-OUTBOX-FENCED"


class OutboxContradictionError(WorkOrdersError):
    """Checkpoint and database contradict each other; nothing was sent or deleted, and an operator decides."""

    error_code = "WO-OUTBOX-CONTRADICTION"


class OutboxIdentityError(ConfigurationError):
    """A relay differs from the outbox's recorded identity; nothing was sent or deleted, and an operator decides."""

    error_code = "WO-OUTBOX-IDENTITY"


class OutboxDecisionError(WorkOrdersError):
    """An operator's decision does not apply; nothing was changed."""
