"""Conversions between claimed runs, what a child process is given and sends back, and what is stored."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.runs.claiming import ClaimedRun
from workorders.core.runs.lifecycle import RunResult
from workorders.core.worker.exceptions import InputUnreadableError
from workorders.core.worker.ipc import Frame
from workorders.core.worker.log_capture import Captured, compose_log
from workorders.core.worker.model import Invocation, InvocationResult, Message, ResultState, Specification
from workorders.core.worker.result_store import EndedRun
from workorders.core.worker.secret_masking import MaskText, mask_output

_WIPED: Final = (
    "InputWiped",
    "The input of this work order was wiped by its workflow's retention, so there is nothing to run.",
)
_UNREADABLE: Final = (
    InputUnreadableError.__name__,
    "The input of this work order is too long as text, so Postgres cannot write it out; the run was not begun. Numbers "
    "such as 1e-9999 make it so; send the message again without them.",
)


def specification(definition: WorkflowDefinition, processes: int) -> Specification:
    """Return how the callable of a workflow is executed."""
    return Specification(
        callable=definition.callable or "",
        timeout_seconds=definition.timeout_seconds,
        log_bytes=definition.log_bytes,
        output_bytes=definition.output_bytes,
        carry_headers=definition.carry_headers,
        processes=min(processes, definition.concurrency or processes),
    )


def to_invocation(run: ClaimedRun) -> Invocation:
    """Return a claimed run as an invocation."""
    return Invocation(
        run_id=str(run.run_id),
        work_order_id=str(run.work_order_id),
        attempt=run.attempt,
        body=run.body or b"",
        request=run.request,
        trigger=run.trigger or None,
        ordering_key=run.ordering_key,
    )


def run_result(result: InvocationResult) -> RunResult:
    """Return a result as it is stored."""
    return RunResult(
        run_id=UUID(result.invocation.run_id),
        state=result.state,
        output=result.output,
        log=result.log,
        log_truncated=result.truncated,
        error_type=result.error_type,
        error=result.error,
        started_at=result.started_at,
        finished_at=result.finished_at,
        may_retry=result.may_retry,
    )


def without_input(run: ClaimedRun) -> EndedRun:
    """Return the end of a run whose input was wiped or cannot be read."""
    error_type, error = _UNREADABLE if run.is_unreadable else _WIPED
    return RunResult(run_id=run.run_id, state="exception", error_type=error_type, error=error, may_retry=False), ()


@dataclass(frozen=True, slots=True)
class ResultMaker:
    """Creates results whose log, error and output contain no known secret, and whose log is bounded."""

    log_bytes: int
    mask: MaskText
    max_secret_bytes: int

    def returned(self, invocation: Invocation, frame: Frame) -> InvocationResult:
        """Return the result that a process sent."""
        _, state, error_type, error, (text, end, traceback), (started, finished), messages, may_retry = frame.header
        log, truncated = self._log(Captured(text, end), traceback)
        return InvocationResult(
            invocation=invocation,
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

    def interrupted(
        self, invocation: Invocation, state: ResultState, error: tuple[str, str], captured: Captured, *, seconds: float
    ) -> InvocationResult:
        """Return the result of an invocation whose process ended with it.

        Args:
            invocation: what the process was executing.
            state: `crashed` or `killed`.
            error: type and text of the error.
            captured: the last output of the process.
            seconds: how long it was executing.
        """
        now = time.time()
        log, truncated = self._log(captured)
        return InvocationResult(invocation, state, _moment(now - seconds), _moment(now), *error, log, truncated)

    def _log(self, captured: Captured, traceback: str = "") -> tuple[str, bool]:
        if not captured.text and not traceback:
            return "", False
        return compose_log(
            captured, traceback, limit=self.log_bytes, mask=self.mask, max_secret_bytes=self.max_secret_bytes
        )


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _message(plain: list[Any]) -> Message:
    to, key, value, headers, *rest = plain
    pairs = tuple((name, _payload(content)) for name, content in headers)
    return Message(to, _payload(key), _payload(value), pairs, *rest)


def _payload(value: str | None) -> bytes | None:
    """Decode bytes from the text of JSON."""
    return None if value is None else value.encode("latin-1")
