"""Items in chunks of a bounded size, of which the next one is read while Postgres stores the one before."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from workorders.core.items import Item

_PORTION_ITEMS: Final = 500
_PARTS: Final = 2
"""A chunk is written by two statements, and Postgres keeps us waiting at the end of each."""


class Chunks:
    """What a source delivers, taken in chunks and in order; at most one chunk is held beside the one being written."""

    def __init__(self, items: Iterable[Item], most_items: int, most_bytes: int) -> None:
        """Take items from a source, which is consumed once.

        Args:
            items: the source.
            most_items: how many a chunk holds.
            most_bytes: of bodies, requests and raw values; the item that reaches it is a chunk's last one.
        """
        self._items = iter(items)
        self._most_items = most_items
        self._most_bytes = most_bytes
        self._chunk: list[Item] = []
        self._held_bytes = 0
        self._ended = False
        self._failure: Exception | None = None

    def __iter__(self) -> Iterator[list[Item]]:
        """Yield the chunks.

        Raises:
            Exception: what the source raised; the items since the last chunk are not yielded any more.
        """
        while chunk := self._take():
            yield chunk

    def ahead(self) -> Iterator[None]:
        """Read a part of the next chunk, a portion at a step, and stop when it is whole.

        What the source raises is kept for later: it is no fault of what is being written meanwhile.
        """
        for _ in range(0, self._most_items // _PARTS, _PORTION_ITEMS):
            if self._is_whole:
                return
            self._read(_PORTION_ITEMS)
            yield

    def _take(self) -> list[Item]:
        while not self._is_whole:
            self._read(self._most_items)
        if self._failure is not None:
            raise self._failure
        chunk, self._chunk, self._held_bytes = self._chunk, [], 0
        return chunk

    @property
    def _is_whole(self) -> bool:
        return self._ended or len(self._chunk) >= self._most_items or self._held_bytes >= self._most_bytes

    def _read(self, most: int) -> None:
        chunk, held, most_bytes = self._chunk, self._held_bytes, self._most_bytes
        wanted = min(most, self._most_items - len(chunk))
        before = len(chunk)
        try:
            for item in islice(self._items, wanted):
                chunk.append(item)
                _, _, request, body, _, raw = item  # a third of the time of asking for them by name
                held += len(request) + len(body or b"") + len(raw or b"")
                if held >= most_bytes:
                    break
            else:
                self._ended = len(chunk) - before < wanted
        except Exception as failure:  # noqa: BLE001 - raised again by the next call of `_take`
            self._failure, self._ended = failure, True
        self._held_bytes = held
