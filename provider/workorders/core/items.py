"""What a source gives to `create_for`, one item per work order, and what a run publishes."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from workorders.core import json_text
from workorders.core.json_bytes import text_or_base64

MAX_BODY_BYTES: Final = 32 * 1024 * 1024
"""Up to here Postgres holds every input as jsonb: an array of 32 MiB has 16.7 million elements, its very limit."""
_PAIR: Final = 2

MAX_PUBLISHED_MESSAGES: Final = 10_000
MAX_PUBLISHED_BYTES: Final = 32 * 1024 * 1024
"""How much a run publishes at most, unless its workflow sets other limits."""


class Rejection(NamedTuple):
    """Why an item cannot be the input of a workflow."""

    code: str
    """A short kebab-case word to filter by, such as `not-json`."""
    detail: str
    """What is wrong and where, as one plain clause."""


class Item(NamedTuple):
    """One event of a source, already validated: an input (`body`) or a rejection."""

    stream: str | None
    """Name of an ordered source within the trigger; None when the event has no source key."""
    position: int | None
    """Place in the stream; unique there. `(stream, position)` is the source key."""
    request: bytes
    """Metadata of the event: a UTF-8 JSON object that Postgres accepts as jsonb."""
    body: bytes | None
    """The input: a UTF-8 JSON object that Postgres accepts as jsonb; None when rejected."""
    rejection: Rejection | None = None
    raw: bytes | None = None
    """The raw value of a rejected event; None also when the event's value was null."""


Headers = Mapping[str, bytes | str | None] | Iterable[tuple[str, bytes | str | None]]
"""The headers of a message, as a program gives them: pairs are in the order in which consumers see them, and a name may
come several times."""


def header_pairs(headers: Headers) -> list[tuple[str, bytes | str | None]]:
    """Return headers as pairs."""
    pairs: object = headers.items() if isinstance(headers, Mapping) else headers
    # A text of two characters would be a pair as well.
    if isinstance(pairs, Iterable) and not isinstance(pairs, str | bytes):
        found = list(pairs)
        if all(isinstance(pair, tuple | list) and len(pair) == _PAIR and isinstance(pair[0], str) for pair in found):
            return [(name, value) for name, value in found]
    raise TypeError(f"headers are a mapping of names to values, or pairs of a name and a value, and not {headers!r}")


class Message(NamedTuple):
    """A message that a run publishes if it succeeds."""

    to: str
    """Name of its destination."""
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    partition: int | None = None
    timestamp_ms: int | None = None
    event_id: str | None = None
    run_id: UUID | None = None
    """The run that publishes it; None until the run has succeeded."""

    @property
    def json_headers(self) -> list[tuple[str, str | dict[str, str] | None]]:
        """Return the headers as JSON can hold them: bytes that are no text as base64."""
        return [(name, None if value is None else text_or_base64(value)) for name, value in self.headers]


def encode_message(
    to: str,
    value: Any,
    *,
    key: bytes | str | None,
    headers: Headers,
    partition: int | None,
    timestamp_ms: int | None,
    event_id: UUID | None,
) -> Message:
    """Return a message as it is sent: text as UTF-8, and a value that is neither bytes, text nor None as JSON."""
    if not isinstance(to, str) or not {type(partition), type(timestamp_ms)} <= {int, type(None)}:
        raise TypeError(
            "its destination is a text, and partition and timestamp_ms are whole numbers; got "
            f"{to!r}, {partition!r}, and {timestamp_ms!r}"
        )
    if value is not None and not isinstance(value, str | bytes):
        try:
            value = json_text.dumps(value)
        except (TypeError, ValueError) as error:
            raise ValueError(f"its value is not JSON: {error}") from error
    pairs = [(name, _octets(header, "a header's value")) for name, header in header_pairs(headers)]
    for name, _ in pairs:
        if "\0" in name:
            raise ValueError(f"the header name {name!r} is no text that Postgres can hold")
    content = _octets(value, "its value")
    id_ = None if event_id is None else str(event_id)
    return Message(to, _octets(key, "its key"), content, tuple(pairs), partition, timestamp_ms, id_)


def _octets(value: object, what: str) -> bytes | None:
    content = value.encode() if isinstance(value, str) else value
    if content is not None and not isinstance(content, bytes):
        raise TypeError(f"{what} is {type(value).__name__} and not bytes, str or None")
    return content
