"""Errors that refuse a request, and their log: the first of each kind immediately, then a sum per minute."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from workorders.core.exceptions import WorkOrdersError

_LOG = logging.getLogger(__name__)

SUM_SECONDS: Final = 60.0
MAX_KINDS: Final = 1000
"""Kinds per minute that are counted separately; the addresses of all others are counted together."""
_MAX_CHARACTERS: Final = 200
_MANY: Final = "other addresses"


class RefusedError(WorkOrdersError):
    """Nothing was created, and the caller gets the reason.

    Args:
        status: HTTP's code.
        code: a short kebab-case word for programs.
        reason: one plain sentence for people. No secret, and no data of the body.
        headers: to answer with.
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


@dataclass(slots=True)
class _Sum:
    began: float
    suppressed: int = 0


class RefusalLog:
    """Logs refusals, so that a caller that sends requests without end does not fill the disk.

    Args:
        clock: returns the seconds of a monotonic clock.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._sums: OrderedDict[tuple[str, str, str], _Sum] = OrderedDict()  # the oldest first

    def add(self, webhook: str | None, path: str, peer: str, refusal: RefusedError) -> None:
        """Log a refusal, or count it.

        Args:
            webhook: its name; None when there is none.
            path: that the caller sent to, unchecked.
            peer: address of the caller.
            refusal: the answer to the caller.
        """
        self.flush()
        key = (webhook or "", peer, refusal.code)
        if key not in self._sums and len(self._sums) >= MAX_KINDS:
            key = (webhook or "", _MANY, refusal.code)
        if key in self._sums:
            self._sums[key].suppressed += 1
            return
        self._sums[key] = _Sum(self._clock())
        asyncio.get_running_loop().call_later(SUM_SECONDS, self.flush)
        _LOG.warning(
            "Webhook path %s: a request of %s was refused with %d (%s): %s",
            printable(path),
            printable(key[1]),
            refusal.status,
            refusal.code,
            printable(refusal.reason),
        )

    def flush(self) -> None:
        """Log the sums whose minute has passed."""
        now = self._clock()
        while self._sums:
            (webhook, peer, code), first = next(iter(self._sums.items()))
            if now - first.began < SUM_SECONDS:
                return
            self._sums.popitem(last=False)
            if first.suppressed:
                _LOG.warning(
                    "Webhook %s: %d more requests of %s were refused within %.0f s (%s).",
                    webhook or "unknown",
                    first.suppressed,
                    printable(peer),
                    now - first.began,
                    code,
                )


def printable(text: str) -> str:
    """Return untrusted text quoted, so that it neither ends a line nor controls a terminal."""
    return repr(text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}...")
