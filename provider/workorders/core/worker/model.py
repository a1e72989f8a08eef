"""What a process of callables is given, and what it gives back."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

OutcomeState = Literal["success", "failed", "crashed", "killed", "exception"]

DEFAULT_LOG_BYTES = 64 * 1024
DEFAULT_OUTPUT_BYTES = 1024 * 1024
DEFAULT_TIMEOUT_SECONDS = 300.0


class Job(NamedTuple):
    """One run as its callable needs it. A named tuple, for thousands of them are made a second."""

    run_id: str
    work_order_id: str
    attempt: int
    body: bytes
    """UTF-8 JSON text of the input."""
    request: bytes
    """UTF-8 JSON text of where the input came from."""
    trigger: str | None = None
    lane: int | None = None
    """Jobs of one lane run one after the other, in the order in which they were handed in."""


class Message(NamedTuple):
    """What a callable wants to be sent when its run has succeeded."""

    to: str
    """Name of where it goes."""
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    partition: int | None = None
    timestamp_ms: int | None = None
    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one run ended."""

    job: Job
    state: OutcomeState
    started_at: datetime
    finished_at: datetime
    error_type: str | None = None
    error: str | None = None
    log: str = ""
    truncated: bool = False
    """Whether the middle of the log was left out."""
    output: bytes | None = None
    """UTF-8 JSON text; None when the callable returned nothing, or failed."""
    messages: tuple[Message, ...] = ()
    may_retry: bool = True
    """False when the function said that another attempt would be in vain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Specification:
    """How the runs of one workflow are executed."""

    callable: str
    """`package.module:function`."""
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    """After so long a run's process is killed."""
    log_bytes: int = DEFAULT_LOG_BYTES
    """Most bytes of a run's log that are kept, traceback included; the middle of a longer one is left out."""
    output_bytes: int = DEFAULT_OUTPUT_BYTES
    """Most bytes of a run's output, as JSON text; a run with a larger one fails."""
    carry_headers: tuple[str, ...] = ()
    """Names of the headers that a run's context carries, and that go out with what it publishes."""
    processes: int = 1
    """How many processes work at once."""

    def for_child(self, **more: Any) -> dict[str, Any]:
        """Return what a process needs to know, as plain values."""
        return {
            "callable": self.callable,
            "log_bytes": self.log_bytes,
            "output_bytes": self.output_bytes,
            "carry_headers": list(self.carry_headers),
            **more,
        }
