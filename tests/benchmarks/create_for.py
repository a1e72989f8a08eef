"""Our `create_for` on one connection, in turns with raw COPY of the same values."""

import multiprocessing
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from benchmarks import messages
from workorders.core import triggers
from workorders.core.creation.work_orders import create_for
from workorders.core.items import Item, ItemBlocks
from workorders.core.postgres.connection import Connection, connect
from workorders.kafka.ingest.record_columns import blocks
from workorders.kafka.ingest.record_mapping import RecordMapping

_TOPIC: Final = "observations"
_STREAM: Final = f"{_TOPIC}/0@benchmark"
WAYS: Final = ("ready items", "mapped from Arrow")
"""Whether the items are there before the clock starts, or are made from Spark's record batches while it runs."""


def empty_tables(connection: Connection) -> None:
    """Remove every work order, as a new table has none."""
    connection.execute("TRUNCATE workorders.work_orders, workorders.dataclips, workorders.rejections CASCADE")
    connection.commit()


def register(connection: Connection, name: str) -> triggers.Trigger:
    """Return a trigger that work orders can belong to."""
    trigger = triggers.register(connection, name=name, type_="kafka", workflow="benchmark", definition={})
    connection.commit()
    return trigger


@dataclass(frozen=True, slots=True)
class _Load:
    url: str
    way: str
    count: int

    def prepare(self) -> Iterable[Item]:
        if self.way == "ready items":
            return list(messages.items(_TOPIC, 0, self.count, _STREAM))
        batches = messages.record_batches(_TOPIC, 0, self.count)
        mapping = RecordMapping()
        return ItemBlocks(block for batch in batches for block in blocks(mapping, batch, _STREAM))


def rows_per_second(url: str, way: str, count: int) -> float:
    """Create `count` work orders in one transaction, commit included."""
    context = multiprocessing.get_context("spawn")
    seconds = context.SimpleQueue()
    process = context.Process(target=_run, args=(_Load(url, way, count), seconds))
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError("Creating work orders failed; see above.")
    taken: float = seconds.get()
    return count / taken


def _run(load: _Load, seconds: "multiprocessing.SimpleQueue[float]") -> None:
    with connect(load.url) as connection:
        empty_tables(connection)
        trigger = register(connection, "create-for")
        items = load.prepare()
        begun = time.monotonic()
        with connection.transaction():
            created = create_for(connection, trigger, items, fresh=True)
        seconds.put(time.monotonic() - begun)
    if created.created != load.count:
        raise RuntimeError(f"{created} came of {load.count} messages.")
