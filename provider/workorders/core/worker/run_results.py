"""Creates the results of runs: of what a child process sent, of a process that ended, and of an input that is gone.

A run's span ends with its result, and continues the trace of the message or the request that its work order came from.
"""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import orjson

from workorders.core import tracing
from workorders.core.runs.claiming import ClaimedRun
from workorders.core.runs.lifecycle import FinalState, RunResult
from workorders.core.runs.steps import FinishedStep
from workorders.core.trace_headers import first_header_values
from workorders.core.worker.captured_text import GAP
from workorders.core.worker.exceptions import InputUnreadableError
from workorders.core.worker.ipc import Frame, decode_messages
from workorders.core.worker.secret_masking import LEFT_OUT, Mask, mask_output

if TYPE_CHECKING:
    from opentelemetry.trace import Span

MAX_TRACEBACK_BYTES: Final = 8_000
MAX_ERROR_CHARACTERS: Final = 2_000
_NANOSECONDS: Final = 1_000_000_000
_RETURNED: Final = frozenset({"success", "failed", "exception"})
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
    match frame.header:
        case [_, _, str(name), None]:
            return FinishedStep(run.run_id, name, frame.first, _moment(time.time()), run.run_id, False)
        case [_, _, str(name), [float(finished_at), str(made_by)]]:
            return FinishedStep(run.run_id, name, frame.first, _moment(finished_at), UUID(made_by), True)
    raise ValueError("a step with other fields")


@dataclass(frozen=True, slots=True)
class ResultMaker:
    """Creates results whose log, error and output contain no known secret, and whose texts are bounded.

    This is the one place where texts are masked and cut: the mask comes first, because it does not recognize a part of
    a secret.
    """

    max_log_bytes: int
    mask: Mask

    def returned(self, run: ClaimedRun, frame: Frame, before: str) -> RunResult:
        """Return the result that a process sent; `before` comes before its log."""
        match frame.header:
            case [_, state, failure, [float(started), float(ended)], bool(may_retry), str(log)] if state in _RETURNED:
                error_type, error, traceback = self._failure(failure)
            case _:
                raise ValueError("a result with other fields")
        log, truncated = self._log(before + log, traceback)
        return RunResult(
            run_id=run.run_id,
            state=state,
            output=mask_output(frame.first, self.mask) if frame.first else None,
            log=log,
            log_truncated=truncated,
            error_type=error_type,
            error=error,
            started_at=_moment(started),
            finished_at=_moment(ended),
            may_retry=may_retry,
            messages=decode_messages(frame.second),
            ordering_key=run.ordering_key,
        )

    def interrupted(
        self, run: ClaimedRun, state: FinalState, error: tuple[str, str], written: str, *, seconds: float
    ) -> RunResult:
        """Return the result of a run that ended with its process, `crashed` or `killed`; `error` is type and text."""
        now = time.time()
        log, truncated = self._log(written)
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

    def error_text(self, error: str) -> str:
        """Return the text of an error as it is stored."""
        text = self.mask(error)
        return text if len(text) <= MAX_ERROR_CHARACTERS else f"{text[:MAX_ERROR_CHARACTERS]} ..."

    def _failure(self, failure: Any) -> tuple[str | None, str | None, str]:
        match failure:
            case None:
                return None, None, ""
            case [str(error_type), str(error), str(traceback)]:
                text = _without_middle(self.mask(traceback), MAX_TRACEBACK_BYTES)
                return self.error_text(error_type), self.error_text(error), text
        raise ValueError("a failure with other fields")

    def _log(self, written: str, traceback: str = "") -> tuple[str, bool]:
        """Return a run's log, and whether its middle was left out."""
        log = self.mask(written) if written else ""
        if traceback:
            log += ("" if not log or log.endswith("\n") else "\n") + traceback
        kept = _without_middle(log, self.max_log_bytes)
        return kept, kept != log or GAP in written


class RunSpans:
    """The spans of the runs that are at work, or were sent ahead: one that begins again replaces the first.

    The process of the function makes no span: it may die at any moment, and knows no exporter.
    """

    def __init__(self, workflow: str) -> None:
        self._workflow = workflow
        self._spans: dict[UUID, Span] = {}

    def begin(self, run: ClaimedRun) -> str | None:
        """Begin the span of a run; return its traceparent, or None if traces go nowhere or this one is not sampled."""
        if not tracing.is_on():
            return None
        headers = first_header_values(orjson.loads(run.request), tracing.HEADERS)
        attributes: dict[str, Any] = {
            "workorders.workflow": self._workflow,
            "workorders.trigger": run.trigger,
            "workorders.work_order.id": str(run.work_order_id),
            "workorders.run.id": str(run.run_id),
            "workorders.run.attempt": run.attempt,
            "workorders.stream": run.stream,
            "workorders.position": run.position,
        }
        span = tracing.tracer().start_span(
            f"run {self._workflow}",
            tracing.sent_context(headers),
            attributes={name: value for name, value in attributes.items() if value is not None},
        )
        self._spans[run.run_id] = span
        return tracing.traceparent_of(span)

    def end(self, result: RunResult) -> None:
        """End the span of a run."""
        span = self._spans.pop(result.run_id, None)
        if span is None:
            return
        span.set_attribute("workorders.run.state", result.state)
        if result.state != "success":
            # Without the text of the error, which may quote the input.
            tracing.fail(span, result.error_type or result.state)
        span.end(None if result.finished_at is None else int(result.finished_at.timestamp() * _NANOSECONDS))


def _without_middle(text: str, limit: int) -> str:
    """Return the beginning and the end of a text that is longer than its limit of bytes; another one as it is."""
    content = text.encode()
    if len(content) <= limit:
        return text
    half = max(limit - len(LEFT_OUT), 0) // 2
    if half == 0:
        return ""
    return content[:half].decode(errors="ignore") + LEFT_OUT + content[-half:].decode(errors="ignore")


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
