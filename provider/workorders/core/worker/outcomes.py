"""From what a process sends back, or from its end, to the outcome of a run."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from workorders.core.worker.ipc import Frame
from workorders.core.worker.log_capture import Captured, compose_log
from workorders.core.worker.model import Job, Message, Outcome, OutcomeState
from workorders.core.worker.secret_masking import mask_output

Mask = Callable[[str], str]
"""Takes the known secrets out of a text."""


@dataclass(frozen=True, slots=True)
class OutcomeMaker:
    """Makes outcomes whose log and error are bounded, and that hold no secret, outputs included."""

    log_bytes: int
    mask: Mask
    longest_secret: int

    def returned(self, job: Job, frame: Frame) -> Outcome:
        """Return the outcome that a process has sent for a job."""
        _, state, error_type, error, (text, end, traceback), (started, finished), messages, may_retry = frame.header
        log, truncated = self._log(Captured(text, end), traceback)
        return Outcome(
            job=job,
            state=state,
            started_at=_moment(started),
            finished_at=_moment(finished),
            error_type=error_type,
            error=None if error is None else self.mask(error),
            log=log,
            truncated=truncated,
            output=mask_output(frame.first, self.mask) if frame.second else None,
            messages=tuple(map(_message, messages)),
            may_retry=may_retry,
        )

    def broken_off(
        self, job: Job, state: OutcomeState, error: tuple[str, str], captured: Captured, *, seconds: float
    ) -> Outcome:
        """Return the outcome of a job whose process ended with it.

        Args:
            job: what was in hand.
            state: `crashed` or `killed`.
            error: type and text of the error.
            captured: the last words of the process.
            seconds: for how long the job was in hand.
        """
        now = time.time()
        log, truncated = self._log(captured)
        return Outcome(job, state, _moment(now - seconds), _moment(now), *error, log, truncated)

    def _log(self, captured: Captured, traceback: str = "") -> tuple[str, bool]:
        if not captured.text and not traceback:
            return "", False
        return compose_log(
            captured, traceback, limit=self.log_bytes, mask=self.mask, longest_secret=self.longest_secret
        )


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _message(plain: list[Any]) -> Message:
    to, key, value, headers, *rest = plain
    pairs = tuple((name, _payload(content)) for name, content in headers)
    return Message(to, _payload(key), _payload(value), pairs, *rest)


def _payload(value: str | None) -> bytes | None:
    """Undo what a process did to say bytes in JSON."""
    return None if value is None else value.encode("latin-1")
