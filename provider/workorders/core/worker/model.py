"""What a child process is given, and what it returns."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

ResultState = Literal["success", "failed", "crashed", "killed", "exception"]

DEFAULT_LOG_BYTES = 64 * 1024
DEFAULT_OUTPUT_BYTES = 1024 * 1024
DEFAULT_TIMEOUT_SECONDS = 300.0


class Invocation(NamedTuple):
    """One run as its callable needs it. A named tuple, because thousands of them are created per second."""

    run_id: str
    work_order_id: str
    attempt: int
    body: bytes
    """UTF-8 JSON text of the input."""
    request: bytes
    """UTF-8 JSON text that describes where the input came from."""
    trigger: str | None = None
    ordering_key: int | None = None
    """Invocations with the same ordering key are executed one after the other, in the order given."""


class Message(NamedTuple):
    """A message that a callable publishes if its run succeeds."""

    to: str
    """Name of its destination."""
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    partition: int | None = None
    timestamp_ms: int | None = None
    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class InvocationResult:
    """How one run ended."""

    invocation: Invocation
    state: ResultState
    started_at: datetime
    finished_at: datetime
    error_type: str | None = None
    error: str | None = None
    log: str = ""
    truncated: bool = False
    """Whether the middle of the log was left out."""
    output: bytes | None = None
    """UTF-8 JSON text; None if the callable returned nothing or failed."""
    messages: tuple[Message, ...] = ()
    may_retry: bool = True
    """False if the function raised a NonRetryableError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Specification:
    """How the runs of one workflow are executed."""

    callable: str
    """`package.module:function`."""
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    """Seconds after which a run's process is killed."""
    log_bytes: int = DEFAULT_LOG_BYTES
    """Maximum size of a run's log with its traceback; the middle of a longer one is left out."""
    output_bytes: int = DEFAULT_OUTPUT_BYTES
    """Maximum size of a run's output as JSON text; a run with a larger one fails."""
    carry_headers: tuple[str, ...] = ()
    """Names of the headers that a run's context has, and that its messages carry on."""
    processes: int = 1
    """How many processes work at once."""

    def for_child(self, **more: Any) -> dict[str, Any]:
        """Return the settings of a process as plain values."""
        return {
            "callable": self.callable,
            "log_bytes": self.log_bytes,
            "output_bytes": self.output_bytes,
            "carry_headers": list(self.carry_headers),
            **more,
        }
