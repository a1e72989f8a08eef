"""Errors that refuse a request."""

from collections.abc import Mapping
from typing import Final

from workorders.core.exceptions import WorkOrdersError

_MAX_CHARACTERS: Final = 200


class RefusedError(WorkOrdersError):
    """Nothing was created, and the caller gets the reason.

    `code` is a short kebab-case word for programs, and `reason` a sentence for people, without secrets and data of the
    body.
    """

    def __init__(self, status: int, code: str, reason: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.code = code
        self.reason = reason
        self.headers = dict(headers or {})


class TryAgainError(RefusedError):
    """The request cannot be served now, but can be later: by default, once an operator has changed something."""

    def __init__(self, code: str, reason: str, *, seconds: int = 60, status: int = 503) -> None:
        super().__init__(status, code, reason, {"Retry-After": str(seconds)})


def printable(text: str) -> str:
    """Return untrusted text quoted, so that it neither ends a line nor controls a terminal."""
    return repr(text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}...")
