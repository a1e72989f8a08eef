"""Creates the results of runs: of what a child process sent, of a process that ended, and of an input that is gone."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from workorders.core.items import Message
from workorders.core.runs.claiming import ClaimedRun
from workorders.core.runs.lifecycle import FinalState, RunResult
from workorders.core.worker.exceptions import InputUnreadableError
from workorders.core.worker.ipc import Frame
from workorders.core.worker.log_capture import Captured, compose_log
from workorders.core.worker.secret_masking import Mask, mask_output

_ERASED: Final = (
    "InputErased",
    "The input of this work order was erased by its workflow's retention, so there is nothing to run.",
)
_UNREADABLE: Final = (
    InputUnreadableError.__name__,
    "The input of this work order is too long as text, so Postgres cannot write it out; the run was not begun. Numbers "
    "such as 1e-9999 make it so; send the message again without them.",
)


def without_input(run: ClaimedRun) -> RunResult:
    """Return the end of a run whose input was erased or cannot be read."""
    error_type, error = _UNREADABLE if run.is_unreadable else _ERASED
    return RunResult(
        run_id=run.run_id,
        state="exception",
        error_type=error_type,
        error=error,
        may_retry=False,
        ordering_key=run.ordering_key,
    )


@dataclass(frozen=True, slots=True)
class ResultMaker:
    """Creates results whose log, error and output contain no known secret, and whose log is bounded."""

    log_bytes: int
    mask: Mask

    def returned(self, run: ClaimedRun, frame: Frame, captured: Captured) -> RunResult:
        """Return the result that a process sent, with its output since the run before."""
        _, state, error_type, error, traceback, (started, finished), messages, may_retry = frame.header
        log, truncated = self._log(captured, traceback)
        return RunResult(
            run_id=run.run_id,
            state=state,
            output=mask_output(frame.first, self.mask) if frame.second else None,
            log=log,
            log_truncated=truncated,
            error_type=error_type,
            error=None if error is None else self.mask(error),
            started_at=_moment(started),
            finished_at=_moment(finished),
            may_retry=may_retry,
            messages=tuple(map(_message, messages)),
            ordering_key=run.ordering_key,
        )

    def interrupted(
        self, run: ClaimedRun, state: FinalState, error: tuple[str, str], captured: Captured, *, seconds: float
    ) -> RunResult:
        """Return the result of a run that ended with its process, `crashed` or `killed`; `error` is type and text."""
        now = time.time()
        log, truncated = self._log(captured)
        return RunResult(
            run_id=run.run_id,
            state=state,
            log=log,
            log_truncated=truncated,
            error_type=error[0],
            error=error[1],
            started_at=_moment(now - seconds),
            finished_at=_moment(now),
            ordering_key=run.ordering_key,
        )

    def _log(self, captured: Captured, traceback: str = "") -> tuple[str, bool]:
        if not captured.text and not traceback:
            return "", False
        return compose_log(captured, traceback, limit=self.log_bytes, mask=self.mask)


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _message(plain: list[Any]) -> Message:
    to, key, value, headers, *rest = plain
    pairs = tuple((name, _payload(content)) for name, content in headers)
    return Message(to, _payload(key), _payload(value), pairs, *rest)


def _payload(value: str | None) -> bytes | None:
    """Decode bytes from the text of JSON."""
    return None if value is None else value.encode("latin-1")
