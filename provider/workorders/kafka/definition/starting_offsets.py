"""Where a trigger starts to read a topic for the first time."""

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from workorders.core.definitions.fields import expecting

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIME: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.,]+([zZ]|[+-][0-9]{2}:?[0-9]{2})$"
_MIN: Final = 1_000_000_000_000
"""In 2001. A smaller number is more likely in seconds; Kafka is younger."""
_MAX: Final = 9_999_999_999_999


def _in_milliseconds(value: Any) -> Any:
    """Return a time with its offset as Unix milliseconds, and any other value as it is."""
    if isinstance(value, str) and re.fullmatch(_TIME, value):
        with suppress(ValueError):
            value = datetime.fromisoformat(value)
    if isinstance(value, datetime) and value.utcoffset() is not None:
        return (value - _EPOCH) // timedelta(milliseconds=1)
    return value


StartingOffsets = Annotated[
    Literal["earliest", "latest", "committed"] | Annotated[int, Field(ge=_MIN, le=_MAX)],
    BeforeValidator(_in_milliseconds),
    expecting(
        "earliest, latest, committed, an ISO 8601 time with its UTC offset such as 2026-03-01T00:00:00+01:00, or 13 "
        "digits of Unix time in milliseconds"
    ),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": ["earliest", "latest", "committed"]},
                {"type": "string", "format": "date-time", "pattern": _TIME},
                {"type": "integer", "minimum": _MIN, "maximum": _MAX},
            ]
        }
    ),
]
"""A policy, or a time in Unix milliseconds: the first message that is not older. It is resolved to offsets, which are
stored before the first message is read. `committed` is the earliest offset if the consumer group has none."""
