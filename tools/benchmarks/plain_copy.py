"""Raw COPY into one table: the speed that everything else is held against.

The values are made before the clock starts, as text or binary that is rendered beforehand, so that nothing but Postgres
is measured. The faster of the two is the base of the bars.
"""

import multiprocessing
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from typing import Final

import psycopg

from benchmarks import plain_table
from benchmarks.plain_table import COLUMNS, TABLE, Row

_TOPIC = "observations"
_Prepared = Callable[[psycopg.Cursor], None]


def _write_blocks(blocks: Sequence[bytes], form: str) -> _Prepared:
    def run(cursor: psycopg.Cursor) -> None:
        with cursor.copy(f"COPY {TABLE} {COLUMNS} FROM STDIN (FORMAT {form})") as copy:
            for block in blocks:
                copy.write(block)

    return run


WAYS: Final[dict[str, Callable[[Sequence[Row]], _Prepared]]] = {
    "text blocks": lambda values: _write_blocks(plain_table.as_text(values), "text"),
    "binary blocks": lambda values: _write_blocks(plain_table.as_binary(values), "binary"),
}


@dataclass(frozen=True, slots=True)
class _Load:
    url: str
    way: str
    partition: int
    count: int

    def prepare(self) -> _Prepared:
        return WAYS[self.way](plain_table.rows(_TOPIC, self.partition, self.count))


def rows_per_second(url: str, way: str, count: int, connections: int = 1) -> float:
    """Copy `count` rows over connections, each in its own process and transaction, commit included."""
    plain_table.create(url)
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(connections)
    times = context.SimpleQueue()
    loads = [_Load(url, way, partition, count // connections) for partition in range(connections)]
    processes = [context.Process(target=_run, args=(load, start, times)) for load in loads]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        raise RuntimeError(f"Copying into {TABLE} failed; see above.")
    spans = [times.get() for _ in processes]
    seconds: float = max(end for _, end in spans) - min(begin for begin, _ in spans)
    return sum(load.count for load in loads) / seconds


def _run(load: _Load, start: Barrier, times: "multiprocessing.SimpleQueue[tuple[float, float]]") -> None:
    run = load.prepare()
    with psycopg.connect(load.url) as connection:
        start.wait()
        begun = time.monotonic()
        run(connection.cursor())
        connection.commit()
        times.put((begun, time.monotonic()))
