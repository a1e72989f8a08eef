"""What can go wrong with the outbox on Postgres's side, by name."""

from workorders.core.exceptions import ConfigurationError, WorkOrdersError


class OutboxMessageError(ConfigurationError):
    """A message could never be sent; nothing of its call was enqueued."""


class OutboxFencedError(WorkOrdersError):
    """A newer relay has the shard; this one changed nothing and must stop."""

    error_code = "WO-OUTBOX-FENCED"


class OutboxContradictionError(WorkOrdersError):
    """Kafka's markers and the database do not fit together; nothing was sent or deleted, and a person must look."""

    error_code = "WO-OUTBOX-CONTRADICTION"


class OutboxIdentityError(ConfigurationError):
    """A relay differs from the outbox's recorded identity; nothing was sent or deleted, and an operator decides."""


class OutboxDecisionError(WorkOrdersError):
    """An operator's decision does not fit; nothing was changed."""
