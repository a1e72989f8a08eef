"""What can go wrong around a callable; what a callable itself does wrong is the result of its run."""

from workorders.core.exceptions import WorkOrdersError


class ExecutionError(WorkOrdersError):
    """Runs could not be executed; they wait again or are recovered as lost."""


class CallableUnavailableError(ExecutionError):
    """A workflow's callable cannot be imported here, so none of its runs was begun."""

    error_code = "WO-CALLABLE-UNAVAILABLE"


class NonRetryableError(WorkOrdersError):
    """A workflow's function raises it if its run has failed and no other attempt can succeed."""


class InputUnreadableError(WorkOrdersError):
    """Postgres holds an input that cannot be given to a function or a Dag; no attempt can succeed."""


class ContextKeyTakenError(InputUnreadableError):
    """An input has the key under which a Dag run would find the context of its run."""


class InvalidValueError(NonRetryableError, TypeError, ValueError):
    """A function returned or published a value that JSON, Postgres, or Kafka cannot hold; its run failed."""


class OutputTooLargeError(NonRetryableError):
    """A callable returned more than its workflow's `max_output_bytes`; its run failed."""


class PublishLimitError(NonRetryableError):
    """A run published more than its workflow allows; it failed, and none of its messages is sent."""


class StepError(NonRetryableError):
    """A function used a step in a way that can never work; its run failed, and nothing of the step was stored."""


class StepsTableMissingError(WorkOrdersError):
    """The database of `context.transaction` has no table for steps, so the function was not called."""

    error_code = "WO-STEPS-TABLE"


class StepOutcomeUnknownError(WorkOrdersError):
    """The answer to a COMMIT of `context.transaction` was lost, and the database cannot be asked; a retry asks it."""
