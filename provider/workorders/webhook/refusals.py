"""Errors that refuse a request, and their log: the first of each kind immediately, then a sum per minute."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from workorders.core.exceptions import WorkOrdersError

_LOG = logging.getLogger(__name__)

SUM_SECONDS: Final = 60.0
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


class RefusalLog:
    """Logs refusals, so that a caller that sends requests indefinitely does not fill the disk."""

    def __init__(self) -> None:
        self._suppressed: dict[tuple[str, str], int] = {}

    def add(self, webhook: str | None, path: str, peer: str | None, refusal: RefusedError) -> None:
        """Log a refusal, or count it."""
        key = (webhook or "unknown", refusal.code)
        if key in self._suppressed:
            self._suppressed[key] += 1
            return
        self._suppressed[key] = 0
        asyncio.get_running_loop().call_later(SUM_SECONDS, self._log_sum, *key)
        _LOG.warning(
            "Webhook path %s: a request of %s was refused with %d (%s): %s",
            printable(path),
            printable(peer or "unknown"),
            refusal.status,
            refusal.code,
            printable(refusal.reason),
        )

    def _log_sum(self, webhook: str, code: str) -> None:
        if suppressed := self._suppressed.pop((webhook, code)):
            _LOG.warning(
                "Webhook %s: %d more requests were refused within %.0f s (%s).", webhook, suppressed, SUM_SECONDS, code
            )


def printable(text: str) -> str:
    """Return untrusted text quoted, so that it neither ends a line nor controls a terminal."""
    return repr(text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}...")
