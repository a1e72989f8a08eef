"""Our `create_for` on one connection, and the COPY of as many rows that are encoded beforehand."""

import multiprocessing
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from benchmarks import messages, plain_copy, plain_table
from benchmarks.cpu import Cost, cost
from workorders.core import triggers
from workorders.core.creation.work_orders import CHUNK_ITEMS, create_for
from workorders.core.ids import increasing_ids
from workorders.core.items import Item
from workorders.core.postgres import binary_rows
from workorders.core.postgres.connection import Connection, connect
from workorders.core.postgres.copy import copy
from workorders.kafka.ingest.record_mapping import RecordMapping
from workorders.kafka.spark.partition_ingest import map_batch

_TOPIC: Final = "observations"
_STREAM: Final = f"{_TOPIC}/0@benchmark"
_Work = Callable[[], object]


def empty_tables(connection: Connection) -> None:
    """Remove every work order, as a new table has none."""
    connection.execute("TRUNCATE workorders.work_orders, workorders.dataclips, workorders.rejections CASCADE")
    connection.commit()


def register(connection: Connection, name: str) -> triggers.Trigger:
    """Return a trigger that work orders can belong to."""
    trigger = triggers.register(connection, name=name, type_="kafka", workflow="benchmark", definition={})
    connection.commit()
    return trigger


def _plain_rows(connection: Connection, _trigger: triggers.Trigger, count: int) -> _Work:
    run = plain_copy.WAYS["binary blocks"](plain_table.rows(_TOPIC, 0, count))
    return lambda: run(connection.cursor())


def _encoded_rows(connection: Connection, trigger: triggers.Trigger, count: int) -> _Work:
    """Return the COPY of rows that are encoded, in the order in which `create_for` writes both tables."""
    suffix = binary_rows.work_order_suffix(
        trigger.id, trigger.workflow_id, triggers.stream_id(connection, trigger, _STREAM), "pending"
    )
    connection.commit()
    items, ids = messages.items(_TOPIC, 0, count, _STREAM), increasing_ids()
    chunks = []
    while chunk := list(islice(zip(ids, items, strict=False), CHUNK_ITEMS)):
        work_orders = b"".join(binary_rows.work_order(id_, item.position, suffix) for id_, item in chunk)
        dataclips = b"".join(binary_rows.dataclip(id_, item.body or b"", item.request) for id_, item in chunk)
        chunks.append((work_orders, dataclips))

    def work() -> None:
        for work_orders, dataclips in chunks:
            copy(connection, "work_orders", binary_rows.WORK_ORDER_COLUMNS, iter([work_orders]))
            copy(connection, "dataclips", binary_rows.DATACLIP_COLUMNS, iter([dataclips]))

    return work


def _ready_items(connection: Connection, trigger: triggers.Trigger, count: int) -> _Work:
    return _creation(connection, trigger, list(messages.items(_TOPIC, 0, count, _STREAM)), count)


def _mapped(connection: Connection, trigger: triggers.Trigger, count: int) -> _Work:
    batches = messages.record_batches(_TOPIC, 0, count)
    items = (item for batch in batches for item in map_batch(RecordMapping(), batch, _STREAM))
    return _creation(connection, trigger, items, count)


def _creation(connection: Connection, trigger: triggers.Trigger, items: Iterable[Item], count: int) -> _Work:
    def work() -> None:
        created = create_for(connection, trigger, items, fresh=True)
        if created.created != count:
            raise RuntimeError(f"{created} came of {count} messages.")

    return work


ENCODED: Final = "COPY of the same rows"
PLAIN: Final = "COPY into the plain table"
WAYS: Final[dict[str, Callable[[Connection, triggers.Trigger, int], _Work]]] = {
    PLAIN: _plain_rows,
    ENCODED: _encoded_rows,
    "create_for, ready items": _ready_items,
    "create_for, mapped from Arrow": _mapped,
}
"""What is written. The first two show Postgres's part, in a plain table and in the package's tables; the last one makes
its items from Spark's record batches while the clock runs."""


@dataclass(frozen=True, slots=True)
class _Load:
    url: str
    way: str
    count: int


def measure(url: str, way: str, count: int) -> Cost:
    """Write `count` rows, or work orders with their inputs, into empty tables in one transaction, commit included."""
    plain_table.create(url)
    context = multiprocessing.get_context("spawn")
    costs = context.SimpleQueue()
    process = context.Process(target=_run, args=(_Load(url, way, count), costs))
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"{way} failed; see above.")
    taken: Cost = costs.get()
    return taken


def _run(load: _Load, costs: "multiprocessing.SimpleQueue[Cost]") -> None:
    with connect(load.url) as connection:
        empty_tables(connection)
        work = WAYS[load.way](connection, register(connection, "create-for"), load.count)
        costs.put(cost(connection, work))
