"""Items in the blocks that Spark's record batches become."""

from collections.abc import Iterable, Iterator
from typing import Final

import numpy
import pyarrow

from workorders.core.items import Item, ItemBlocks
from workorders.kafka.ingest.record_columns import RecordBlock

_SIZE: Final = 2


def in_blocks(items: Iterable[Item]) -> ItemBlocks:
    """Return items with source keys in blocks of two items of one stream; they are read when the blocks are."""
    return ItemBlocks(_blocks(items))


def _blocks(items: Iterable[Item]) -> Iterator[RecordBlock]:
    held: list[Item] = []
    for item in items:
        if held and item.stream != held[0].stream:
            yield _block(held)
            held = []
        held.append(item)
        if len(held) == _SIZE:
            yield _block(held)
            held = []
    if held:
        yield _block(held)


def _block(items: list[Item]) -> RecordBlock:
    assert items[0].stream is not None
    return RecordBlock(
        items[0].stream,
        numpy.array([item.position for item in items], numpy.int64),
        pyarrow.array([item.request for item in items], pyarrow.binary()),
        pyarrow.array([item.body for item in items], pyarrow.binary()),
        {row: item for row, item in enumerate(items) if item.body is None},
    )
