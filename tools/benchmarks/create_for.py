"""Our `create_for` on one connection."""

import multiprocessing
import time
from collections.abc import Callable, Iterable
from typing import Final

from benchmarks import messages
from workorders.core import triggers
from workorders.core.creation.work_orders import create_for
from workorders.core.items import Item
from workorders.core.postgres.connection import Connection, connect
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


def _ready_items(connection: Connection, trigger: triggers.Trigger, count: int) -> _Work:
    return _creation(connection, trigger, list(messages.items(_TOPIC, 0, count, _STREAM)), count)


def _mapped(connection: Connection, trigger: triggers.Trigger, count: int) -> _Work:
    batches = messages.record_batches(_TOPIC, 0, count)
    items = (item for batch in batches for item in map_batch(RecordMapping(), (_TOPIC, 0), batch, _STREAM))
    return _creation(connection, trigger, items, count)


def _creation(connection: Connection, trigger: triggers.Trigger, items: Iterable[Item], count: int) -> _Work:
    def work() -> None:
        created = create_for(connection, trigger, items, fresh=True)
        if created.created != count:
            raise RuntimeError(f"{created} came of {count} messages.")

    return work


WAYS: Final[dict[str, Callable[[Connection, triggers.Trigger, int], _Work]]] = {
    "create_for, ready items": _ready_items,
    "create_for, mapped from Arrow": _mapped,
}
"""What is written; the second one makes its items from Spark's record batches while the clock runs."""


def rows_per_second(url: str, way: str, count: int) -> float:
    """Create `count` work orders with their inputs in empty tables in one transaction, commit included."""
    context = multiprocessing.get_context("spawn")
    seconds = context.SimpleQueue()
    process = context.Process(target=_run, args=(url, way, count, seconds))
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"{way} failed; see above.")
    return count / float(seconds.get())


def _run(url: str, way: str, count: int, seconds: "multiprocessing.SimpleQueue[float]") -> None:
    with connect(url) as connection:
        empty_tables(connection)
        work = WAYS[way](connection, register(connection, "create-for"), count)
        begun = time.monotonic()
        work()
        connection.commit()
        seconds.put(time.monotonic() - begun)
