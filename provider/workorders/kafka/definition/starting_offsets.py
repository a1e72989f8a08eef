"""Where a trigger starts to read a topic for the first time."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

FORM: Final = (
    "expected earliest, latest, committed, an ISO 8601 time with its offset such as 2026-03-01T00:00:00+01:00, "
    "or 13 digits of Unix time in milliseconds"
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECONDS: Final = re.compile(r"[1-9][0-9]{12}")
_POLICIES: Final = ("earliest", "latest", "committed")


@dataclass(frozen=True, slots=True)
class StartingOffsets:
    """A policy; it is resolved to offsets, which are stored before the first message is read."""

    policy: Literal["earliest", "latest", "committed", "timestamp"]
    """`committed` starts at the consumer group's committed offset, or at the earliest offset without one."""
    timestamp_ms: int | None = None
    """Unix time in milliseconds, for `timestamp` alone: the first message that is not older."""

    @classmethod
    def parse(cls, value: Any) -> "StartingOffsets":
        """Read the forms of a trigger file, or a datetime of a program.

        Raises:
            ValueError: the value has none of the forms.
        """
        if isinstance(value, StartingOffsets):
            return value
        if value in _POLICIES:
            return cls(value)
        if isinstance(value, str | int) and not isinstance(value, bool) and _MILLISECONDS.fullmatch(str(value)):
            return cls("timestamp", int(value))
        time = _time(value)
        if time is None:
            raise ValueError(f"{FORM}, got {value!r}.")
        if time.utcoffset() is None:
            raise ValueError(f"{FORM}; {value} lacks the offset, so it would mean another time elsewhere.")
        timestamp_ms = (time - _EPOCH) // timedelta(milliseconds=1)
        if timestamp_ms < 0:
            raise ValueError(f"{FORM}; {value} is before 1970, and Kafka has no such times.")
        return cls("timestamp", timestamp_ms)

    def __str__(self) -> str:
        """Return the form that a trigger file would have."""
        if self.timestamp_ms is None:
            return self.policy
        return (_EPOCH + timedelta(milliseconds=self.timestamp_ms)).isoformat(timespec="milliseconds")


def _time(value: Any) -> datetime | None:
    if isinstance(value, datetime):
        return value
    if isinstance(value, str) and len(value) > len("2026-03-01"):  # a date alone is no time
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            return None
    return None


StartingOffsetsField = Annotated[
    StartingOffsets,
    BeforeValidator(StartingOffsets.parse),
    PlainSerializer(str),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": list(_POLICIES)},
                {
                    "type": "string",
                    "format": "date-time",
                    "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.,]+([zZ]|[+-][0-9]{2}:?[0-9]{2})$",
                },
                {"type": "integer", "minimum": 1_000_000_000_000, "maximum": 9_999_999_999_999},
            ]
        }
    ),
]
