"""What can go wrong around a callable; what a callable itself does wrong is the outcome of its run."""

from workorders.core.exceptions import WorkOrdersError


class ExecutionError(WorkOrdersError):
    """Runs could not be worked through; they wait again, or are found lost."""


class CallableUnavailableError(ExecutionError):
    """A workflow's callable cannot be imported here, so none of its runs was begun."""

    error_code = "WO-CALLABLE-UNAVAILABLE"


class GroupTakenError(ExecutionError):
    """The runs of a group were given to somebody else meanwhile; nothing of them was changed here any more."""


class FinalError(WorkOrdersError):
    """Raised by a workflow's function: its run has failed, and another attempt would be in vain."""


class InputUnreadableError(WorkOrdersError):
    """An input is kept in Postgres and cannot be given to a function or a DAG; no attempt at it can succeed."""


class ContextKeyTakenError(InputUnreadableError):
    """An input has the key under which a DAG run is to find the context of its run."""


class OutputTooLargeError(WorkOrdersError):
    """A callable returned more than its workflow keeps; its run failed."""
