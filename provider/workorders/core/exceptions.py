"""What can go wrong in the core, by name."""

from collections.abc import Iterable
from typing import ClassVar
from uuid import UUID


class WorkOrdersError(Exception):
    """Base of every error that this package raises on purpose; its text is one plain sentence for people."""

    error_code: ClassVar[str | None] = None
    """What the reference of errors explains it under; part of the text, which is all that leaves a process."""

    def __str__(self) -> str:
        # A text that repeats that of its cause has a code already.
        text = super().__str__()
        return f"{text} [{self.error_code}]" if self.error_code and "[WO-" not in text else text


def one_line(message: object) -> str:
    """Return the message of an error or of another program as one line, without its line breaks and indents."""
    return " ".join(str(message).split())


class ConfigurationError(WorkOrdersError, ValueError):
    """A definition or a setting has a wrong form; the sentence names the file, the field and the right form."""


class UnknownNameError(WorkOrdersError, LookupError):
    """There is no trigger, workflow, work order, run, sequence, or bulk operation of that name or id."""


class SchemaError(WorkOrdersError):
    """The database's tables are not at the version that this package needs."""

    error_code = "WO-SCHEMA"


class DuplicateItemsError(WorkOrdersError):
    """A source repeated a source key that it had promised to be new; nothing was created."""

    error_code = "WO-DUPLICATE-ITEMS"


class KeysBusyError(WorkOrdersError):
    """Another open transaction has written to keys of these runs; nothing was enqueued, and a later try can succeed."""

    def __init__(self, run_ids: Iterable[UUID]) -> None:
        self.run_ids = frozenset(run_ids)
        """Those runs."""
        super().__init__(f"{len(self.run_ids):,} runs publish to keys that another transaction has written to.")


class OwnershipLostError(WorkOrdersError):
    """Another worker may own the runs now; this one changed nothing more of them."""


class LimitReachedError(WorkOrdersError):
    """A limit of the workflow with `on_reached: wait` is reached.

    The caller rolls back, so nothing was created, and its source waits.
    """

    retry_after_seconds: ClassVar[int] = 60
    """In how many seconds another try may succeed."""
