"""What a source gives to `create_for`, one item per work order, and what a run publishes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple, Protocol
from uuid import UUID

MAX_BODY_BYTES: Final = 32 * 1024 * 1024
"""Up to here Postgres holds every input as jsonb: an array of 32 MiB has 16.7 million elements, its very limit."""


class Rejection(NamedTuple):
    """Why an item cannot be the input of a workflow."""

    code: str
    """A short kebab-case word to filter by, such as `not-json`."""
    detail: str
    """What is wrong and where, as one plain clause."""


class Item(NamedTuple):
    """One event of a source, already validated: an input (`body`) or a rejection.

    A named tuple and not a dataclass: a batch makes a hundred thousand of them, and this is the cheapest to make.
    """

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


Encoded = bytes | memoryview
"""Rows of COPY."""


class ItemBlock(Protocol):
    """Successive items of one stream, held in a form that is encoded together; iteration gives them one by one."""

    @property
    def stream(self) -> str:
        """Name of the stream."""

    @property
    def odd(self) -> Mapping[int, Item]:
        """By row: the items that have an encoding of their own. All rejected ones are among them."""

    @property
    def size(self) -> int:
        """Bytes of all bodies, requests, and raw values."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Item]: ...
    @property
    def filtered(self) -> int:
        """Number of events that the source left out; a block may stand for these alone."""

    @property
    def positions(self) -> Iterable[int]:
        """The positions of the items, and of the events that were left out."""

    @property
    def last(self) -> int:
        """The last of the positions."""

    def ascends_within(self, start: int, end: int) -> bool:
        """Return whether each position is greater than the one before, and all are in [start, end)."""

    def work_orders(self, ids: Sequence[bytes], accepted: bytes, rejected: bytes) -> Iterable[Encoded]:
        """Return the rows of `work_orders`, given the ids and the suffixes of both states."""

    def dataclips(self, ids: Sequence[bytes]) -> Iterable[Encoded]:
        """Return the rows of `dataclips`: those of the items with a body."""


@dataclass(frozen=True, slots=True)
class ItemBlocks:
    """Items that are read in blocks where that is possible, and otherwise one by one; once."""

    blocks: Iterable[ItemBlock]

    def __iter__(self) -> Iterator[Item]:
        """Yield the items."""
        return chain.from_iterable(self.blocks)


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
