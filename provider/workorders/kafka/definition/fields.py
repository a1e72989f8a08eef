"""Types of fields of Kafka triggers and of the outbox relay."""

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from workorders.core.definitions.fields import Number, Text, expecting

REGEX_MARK: Final = "^"
"""A topic that begins with it is a regular expression, as in librdkafka."""
_NAME: Final = r"^[a-zA-Z0-9._-]+$"
_NAME_IN_WORDS: Final = "of a-z, A-Z, 0-9, '.', '_' and '-'"
_MAX_NAME: Final = 249
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIME: Final = r"^2(00[2-9]|0[1-9][0-9]|1[0-9]{2})-[0-9]{2}-[0-9]{2}[T ][0-9:.,]+([zZ]|[+-][0-9]{2}:?[0-9]{2})$"
"""With a year that has 13 digits of Unix time in milliseconds."""
_MIN_TIME: Final = 1_000_000_000_000
"""In 2001. A smaller number is more likely in seconds; Kafka is younger."""
_MAX_TIME: Final = 9_999_999_999_999


def _topic(value: str) -> str:
    if value.startswith(REGEX_MARK):
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"expected a regular expression after the ^, got {value!r} ({error}).") from error
    elif not re.fullmatch(_NAME, value) or len(value) > _MAX_NAME or value in {".", ".."}:
        raise ValueError(
            f"expected a topic's name (1 to {_MAX_NAME} {_NAME_IN_WORDS}, but not '.' or '..') or a regular expression "
            f"that begins with ^, got {value!r}."
        )
    return value


def is_subscribed(subscription: str, topic: str) -> bool:
    """Return whether a topic is the one of this name, or matches this pattern."""
    if subscription.startswith(REGEX_MARK):
        return re.match(subscription, topic) is not None
    return subscription == topic


def _in_milliseconds(value: Any) -> Any:
    """Return a time with its offset as Unix milliseconds, and any other value as it is."""
    if isinstance(value, str) and re.fullmatch(_TIME, value):
        with suppress(ValueError):
            value = datetime.fromisoformat(value)
    if isinstance(value, datetime) and value.utcoffset() is not None:
        return (value - _EPOCH) // timedelta(milliseconds=1)
    return value


TopicOrPattern = Annotated[str, expecting("a topic's name, in quotes if it is a number"), AfterValidator(_topic)]
"""A topic's name, or a regular expression that begins with `^`."""
TopicName = Annotated[
    str,
    Field(pattern=_NAME, max_length=_MAX_NAME),
    expecting(f"a topic's name (1 to {_MAX_NAME} {_NAME_IN_WORDS})"),
]
IdPrefix = Annotated[
    str, Field(pattern=_NAME, max_length=100), expecting(f"the beginning of an id (1 to 100 {_NAME_IN_WORDS})")
]
Rate = Annotated[Number, Field(gt=0), expecting("a number of messages per second above 0, or null for no limit")]
# More than all messages cannot be rejected, so a limit of 1 would never hold anything back.
Share = Annotated[Number, Field(gt=0, lt=1), expecting("a share above 0 and below 1 such as 0.5, or null for no limit")]
HeaderNames = Annotated[
    Literal["all", "none"] | Annotated[tuple[Text, ...], Field(min_length=1)],
    expecting("all, none or a list of header names such as [traceparent]"),
]
StartingOffsets = Annotated[
    Literal["earliest", "latest", "committed"] | Annotated[int, Field(ge=_MIN_TIME, le=_MAX_TIME)],
    BeforeValidator(_in_milliseconds),
    expecting(
        "earliest, latest, committed, an ISO 8601 time of the years 2002 to 2199 with its UTC offset such as "
        "2026-03-01T00:00:00+01:00, or 13 digits of Unix time in milliseconds"
    ),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": ["earliest", "latest", "committed"]},
                {"type": "string", "format": "date-time", "pattern": _TIME},
                {"type": "integer", "minimum": _MIN_TIME, "maximum": _MAX_TIME},
            ]
        }
    ),
]
"""A policy, or a time in Unix milliseconds: the first message that is not older. It is resolved to offsets, which are
stored before the first message is read. `committed` is the earliest offset if the consumer group has none."""
