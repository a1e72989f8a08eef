"""Creates the results of runs: of what a child process sent, of a process that ended, and of an input that is gone."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from workorders.core.runs.claiming import ClaimedRun
from workorders.core.runs.lifecycle import FinalState, RunResult
from workorders.core.runs.steps import FinishedStep
from workorders.core.worker.captured_text import NOTHING, Captured
from workorders.core.worker.exceptions import InputUnreadableError
from workorders.core.worker.ipc import Frame
from workorders.core.worker.log_capture import compose_log, masked
from workorders.core.worker.published_messages import decode_messages
from workorders.core.worker.secret_masking import Mask, mask_output

MAX_TRACEBACK_CHARACTERS: Final = 8_000
"""Of a longer traceback the beginning and the end are kept, and the end is longer."""
MAX_ERROR_CHARACTERS: Final = 2_000
"""Maximum of the text of an error."""
_HEAD: Final = MAX_TRACEBACK_CHARACTERS // 4
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


def finished_step(run: ClaimedRun, frame: Frame) -> FinishedStep:
    """Return a step that a process sent. Its result is data of the function, so it is not masked, and never logged."""
    _, _, name, committed = frame.header
    finished_at, made_by = committed or (time.time(), str(run.run_id))
    return FinishedStep(run.run_id, name, frame.first, _moment(finished_at), UUID(made_by), committed is not None)


@dataclass(frozen=True, slots=True)
class ResultMaker:
    """Creates results whose log, error and output contain no known secret, and whose texts are bounded.

    This is the one place where texts are masked and cut: the mask comes first, because it does not recognize a part of
    a secret.
    """

    log_bytes: int
    mask: Mask

    def returned(self, run: ClaimedRun, frame: Frame, captured: Captured) -> RunResult:
        """Return the result that a process sent, with its output since the run before."""
        _, state, failure, (started, finished), may_retry = frame.header
        error_type, error, traceback = (None, None, "") if failure is None else self._failure(*failure)
        log, truncated = self._log(captured, traceback)
        return RunResult(
            run_id=run.run_id,
            state=state,
            output=mask_output(frame.first, self.mask) if frame.first else None,
            log=log,
            log_truncated=truncated,
            error_type=error_type,
            error=error,
            started_at=_moment(started),
            finished_at=_moment(finished),
            may_retry=may_retry,
            messages=decode_messages(frame.second),
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

    def error_text(self, error: Captured) -> str:
        """Return the text of an error as it is stored."""
        text, _ = masked(error, self.mask)
        return text if len(text) <= MAX_ERROR_CHARACTERS else f"{text[:MAX_ERROR_CHARACTERS]} ..."

    def _failure(self, error_type: str, error: list[Any], traceback: list[Any]) -> tuple[str, str, str]:
        text, _ = masked(Captured(*traceback), self.mask)
        if len(text) > MAX_TRACEBACK_CHARACTERS:
            text = f"{text[:_HEAD]}\n  ...\n{text[_HEAD - MAX_TRACEBACK_CHARACTERS :]}"
        return self.error_text(Captured(error_type)), self.error_text(Captured(*error)), text

    def _log(self, captured: Captured, traceback: str = "") -> tuple[str, bool]:
        if captured == NOTHING and not traceback:
            return "", False
        return compose_log(captured, traceback, limit=self.log_bytes, mask=self.mask)


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
