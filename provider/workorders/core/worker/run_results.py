"""Creates the results of runs: of what a child process sent, of a process that ended, and of an input that is gone.

Known secrets are masked in their logs, errors and outputs. A run's span ends with its result, and continues the trace
of the message or the request that its work order came from.
"""

import json
import re
import time
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote, urlsplit
from uuid import UUID

import orjson

from workorders.core import tracing
from workorders.core.runs.claiming import ClaimedRun
from workorders.core.runs.lifecycle import FinalState, FinishedStep, RunResult
from workorders.core.secrets import is_secret_variable
from workorders.core.trace_headers import first_header_values
from workorders.core.worker import json_values
from workorders.core.worker.captured_text import GAP, printable
from workorders.core.worker.exceptions import InputUnreadableError
from workorders.core.worker.ipc import Frame, decode_messages

if TYPE_CHECKING:
    from opentelemetry.trace import Span

MAX_TRACEBACK_BYTES: Final = 16_000
MAX_ERROR_CHARACTERS: Final = 2_000
MASK: Final = "***"
LEFT_OUT: Final = "\n... the middle of this log was left out ...\n"
_WHOLE_OUTPUT: Final = json_values.dumps(MASK)
MIN_CHARACTERS: Final = 5
"""A shorter value is not masked, because too many harmless words contain it. Airflow's masker has the same limit."""
MIN_BYTES_IN_BASE64: Final = 6
_URL_SAFE: Final = str.maketrans("+/", "-_")
_PASSWORD_IN_CONNINFO: Final = re.compile(r"\bpassword\s*=\s*(?:'((?:[^'\\]|\\.)*)'|(\S+))")
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


class Mask:
    """Replaces every known secret in a text."""

    def __init__(self, secrets: Iterable[str]) -> None:
        known = sorted({secret for secret in secrets if len(secret) >= MIN_CHARACTERS}, key=len, reverse=True)
        #: Length of the longest secret, in bytes.
        self.max_secret_bytes = max((len(secret.encode()) for secret in known), default=0)
        self._pattern = re.compile("|".join(map(re.escape, known))) if known else None

    def __call__(self, text: str) -> str:
        """Return the text without secrets; `LEFT_OUT` replaces its gaps.

        The text next to a gap may be a part of a secret, which is not recognized. So it is left out as well.
        """
        *beginnings, end = (text if self._pattern is None else self._pattern.sub(MASK, text)).split(GAP)
        margin = self.max_secret_bytes
        for number, part in enumerate(beginnings):
            beginnings[number] = part[margin if number else 0 : max(len(part) - margin, 0)]
        return LEFT_OUT.join([*beginnings, end[margin if beginnings else 0 :]])


NO_SECRETS: Final = Mask(())


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
                return self._result(
                    run,
                    state,
                    failure,
                    before + log,
                    (started, ended),
                    output=mask_output(frame.first, self.mask) if frame.first else None,
                    may_retry=may_retry,
                    messages=decode_messages(frame.second),
                )
        raise ValueError("a result with other fields")

    def interrupted(
        self, run: ClaimedRun, state: FinalState, error: tuple[str, str], written: str, *, seconds: float
    ) -> RunResult:
        """Return the result of a run that ended with its process, `crashed` or `killed`; `error` is type and text."""
        now = time.time()
        return self._result(run, state, [*error, ""], written, (now - seconds, now))

    def _result(
        self, run: ClaimedRun, state: Any, failure: Any, written: str, times: tuple[float, float], **returned: Any
    ) -> RunResult:
        error_type, error, traceback = self._failure(failure)
        log, truncated = self._log(written, traceback)
        return RunResult(
            run_id=run.run_id,
            state=state,
            log=log,
            log_truncated=truncated,
            error_type=error_type,
            error=error,
            started_at=_moment(times[0]),
            finished_at=_moment(times[1]),
            ordering_key=run.ordering_key,
            **returned,
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

    def _log(self, written: str, traceback: str) -> tuple[str, bool]:
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


def secrets_of(environment: Mapping[str, str]) -> set[str]:
    """Return the secrets that an environment holds.

    These are the values of variables with a secret name, and the passwords in URLs and connection strings. In Airflow's
    connections (`AIRFLOW_CONN_...`) they include the values of their extra with such a name.
    """
    return {form for secret in _secrets_in_json(dict(environment)) for form in _forms(secret)}


def _secrets_in_text(value: str) -> Iterator[str]:
    """Yield the secrets in one value: JSON, a URL, or a connection string of Postgres."""
    if value.lstrip().startswith(("{", "[")):
        with suppress(ValueError):
            yield from _secrets_in_json(json.loads(value))
        return
    if "://" in value:
        yield from _passwords_of_url(value)
    for quoted, plain in _PASSWORD_IN_CONNINFO.findall(value):
        yield re.sub(r"\\(.)", r"\1", quoted) or plain


def _passwords_of_url(value: str) -> Iterator[str]:
    with suppress(ValueError):
        parts = urlsplit(value)
        if parts.password:
            yield parts.password
        for field in parts.query.split("&"):
            name, _, content = field.partition("=")
            if content and is_secret_variable(name):
                yield unquote(content)


def _secrets_in_json(value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, content in value.items():
            yield from _secrets_in_json(content, key)
    elif isinstance(value, list):
        for content in value:
            yield from _secrets_in_json(content)
    elif isinstance(value, str):
        if is_secret_variable(name):
            yield value
        yield from _secrets_in_text(value)


def _forms(secret: str) -> set[str]:
    """Return a secret in the forms in which it is written: as it is, in URLs, in JSON, in Python, and in base64."""
    # A variable may hold bytes that are no UTF-8; they are written as a log shows them.
    secret = printable(secret.encode("utf-8", "surrogateescape"))
    word = unquote(secret)
    written = {json.dumps(word)[1:-1], json.dumps(word, ensure_ascii=False)[1:-1], repr(word)[1:-1]}
    return {secret, word, quote(word, safe=""), *written, *_in_base64(word)}


def _in_base64(secret: str) -> Iterator[str]:
    """Yield the characters that a secret determines in base64 of a longer text, such as HTTP Basic's `user:password`.

    They depend on how many bytes are before the secret; a bit or two of it remain in the characters next to them.
    """
    content = secret.encode()
    if len(content) < MIN_BYTES_IN_BASE64:
        return
    for before in range(3):
        begin, end = -(-before * 8 // 6), (before + len(content)) * 8 // 6
        encoded = b64encode(b"\0" * before + content).decode()[begin:end]
        yield from (encoded, encoded.translate(_URL_SAFE))


def mask_output(output: bytes, mask: Mask) -> bytes:
    """Return an output of `json_values.dumps` without secrets: in its strings and its names, and where a number is one.

    Not in its JSON text, because a secret may begin in one value and end in another, or be part of a number. The result
    would not be JSON. An output that is nested too deep to be looked through is masked as a whole.
    """
    text = output.decode()
    # Without a backslash the text contains every string as it is, so a search in the text is enough. With one, a string
    # may be escaped.
    if "\\" not in text and mask(text) == text:
        return output
    try:
        return json_values.dumps(_mask_value(json_values.loads(output), mask))
    except (InputUnreadableError, RecursionError):
        return _WHOLE_OUTPUT


def _mask_value(value: Any, mask: Mask) -> Any:
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return {mask(name): _mask_value(content, mask) for name, content in value.items()}
    if isinstance(value, list):
        return [_mask_value(content, mask) for content in value]
    if isinstance(value, int | float) and mask(str(value)) == MASK:
        return MASK
    return value
