"""Types of fields of Kafka triggers and of the outbox relay."""

import re
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from workorders.core.definitions.fields import Number, Text, expecting

REGEX_MARK: Final = "^"
"""A topic that begins with it is a regular expression, as in librdkafka."""
_NAME: Final = r"^[a-zA-Z0-9._-]+$"
_NAME_IN_WORDS: Final = "of a-z, A-Z, 0-9, '.', '_' and '-'"
_MAX_NAME: Final = 249


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
