"""Forms of fields that only a Kafka trigger has, each with the sentence that names the right form."""

import math
import re
from typing import Any, Final

from pydantic import BeforeValidator

REGEX_MARK: Final = "^"
"""A topic that begins with it is a regular expression, as in librdkafka."""
TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def rate(value: Any) -> float | None:
    """Return a number of messages a second above 0, or None for no limit."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ValueError(f"expected a number of messages a second above 0, or null for no limit, got {value!r}.")
    return float(value)


def share(value: Any) -> float | None:
    """Return a share above 0 and below 1, or None for no limit.

    More than all messages cannot be rejected, so a limit of 1 would never hold anything back: that is refused, too.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise ValueError(f"expected a share above 0 and below 1 such as 0.5, or null for no limit, got {value!r}.")
    return float(value)


def topics(value: Any) -> tuple[str, ...]:
    """Return topic names and regular expressions, each once."""
    if not isinstance(value, list | tuple) or not value:
        raise ValueError(rf"expected a list of topics such as [orders] or ['^orders\.'], got {value!r}.")
    for topic in value:
        _check_topic(topic)
    if len(set(value)) < len(value):
        raise ValueError(f"expected every topic once, got {list(value)!r}.")
    return tuple(value)


def header_names(value: Any) -> str | tuple[str, ...]:
    """Return `all`, `none` or the names of headers."""
    if value in ("all", "none"):
        return str(value)
    if isinstance(value, list | tuple) and value and all(isinstance(name, str) for name in value):
        return tuple(value)
    raise ValueError(f"expected all, none or a list of header names such as [traceparent], got {value!r}.")


def kafka_name(what: str, longest: int) -> BeforeValidator:
    """Accept a name as Kafka has them, such as a topic's; `what` says whose."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or not TOPIC_NAME.fullmatch(value) or len(value) > longest:
            raise ValueError(f"expected {what} (1 to {longest} of a-z, A-Z, 0-9, '.', '_' and '-'), got {value!r}.")
        return value

    return BeforeValidator(check)


def _check_topic(topic: Any) -> None:
    if not isinstance(topic, str):
        raise ValueError(f"expected topics as text, got {topic!r}; put it in quotes.")
    if topic.startswith(REGEX_MARK):
        try:
            re.compile(topic)
        except re.error as error:
            raise ValueError(f"expected a regular expression behind the ^, got {topic!r} ({error}).") from error
    elif not TOPIC_NAME.fullmatch(topic) or topic in {".", ".."}:
        raise ValueError(
            f"expected a topic's name (1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-', but not '.' or '..') "
            f"or a regular expression that begins with ^, got {topic!r}."
        )
