"""Very many finished work orders, as a month leaves them behind, made in the server: a client would take hours."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from workorders.core import triggers
from workorders.core.history import search_index
from workorders.core.ids import first_id
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.core.triggers import Trigger

_QUERIES: Final = load_queries("benchmarks", "many.sql")

COMMON: Final = "many"
"""The trigger and the workflow of nearly all, or of the first half of them."""
OLD: Final = "many-old"
"""A trigger of the same workflow, whose work orders are the oldest hundredth."""
RARE: Final = "many-rare"
"""A trigger and a workflow that one in 100,000 has."""
PARTITIONS: Final = 4
"""Streams of each common trigger."""
_CHUNK: Final = 500_000
_EMPTY: Final = """
TRUNCATE workorders.triggers, workorders.work_orders, workorders.dataclips, workorders.rejections, workorders.runs,
    workorders.run_results, workorders.search_words, workorders.history_marks,
    workorders.bulk_jobs, workorders.state_counts CASCADE
"""
_WORDS_INDEX: Final = "SELECT pg_get_indexdef('workorders.search_words_words_idx'::regclass)"
LEFT_WITHOUT_WORDS: Final = 20_000
"""Work orders whose words are left to the product, or a tenth of all if that is less."""
_SAMPLE: Final = 100

BETWEEN: Final = timedelta(milliseconds=250)
"""Time from one work order to the next."""

Say = Callable[[str], None]


def fill(
    connection: Connection, rows: int, say: Say, *, inputs: bool = True, common: Sequence[Trigger] = ()
) -> Mapping[str, Any]:
    """Make `rows` finished work orders with their runs, and with their inputs and words unless told otherwise.

    The connection commits by itself, because each part is committed alone.

    Args:
        connection: in autocommit mode.
        rows: how many.
        say: told of each part.
        inputs: whether they have inputs and words.
        common: the triggers of nearly all, registered after `empty`. If there are none, the tables are emptied and
            `COMMON` alone has them.

    Returns:
        What the functions `time_of` and `id_of` of the session take besides a number.
    """
    _prepare(connection)
    if not common:
        empty(connection)
    given = _given(connection, rows, common)
    index = _drop_words_index(connection)
    with_words = rows - min(LEFT_WITHOUT_WORDS, rows // 10)
    for start in range(0, rows, _CHUNK):
        say(f"{start:,} of {rows:,} work orders are made")
        chunk = given | {"start": start, "end": min(start + _CHUNK, rows)}
        for part in ("work_orders", "runs", "rejections", *(("inputs",) if inputs else ())):
            connection.execute(_QUERIES[part], chunk)
        if inputs:
            connection.execute(_QUERIES["words"], chunk | {"end": min(start + _CHUNK, with_words)})
    if inputs:
        _complete_words(connection, given)
    say("the index of the words")
    connection.execute(index)
    for table in ("work_orders", "runs", "rejections", "dataclips", "search_words"):
        say(f"vacuum of {table}")
        connection.execute(f"VACUUM (ANALYZE) workorders.{table}")
    return given


def empty(connection: Connection) -> None:
    """Delete all triggers and work orders: those of another benchmark may have the same names and other types."""
    connection.execute(_EMPTY)


def _prepare(connection: Connection) -> None:
    # An index over hundreds of millions of entries is built many times faster with some memory.
    for setting in ("statement_timeout = 0", "synchronous_commit = off", "maintenance_work_mem = '1GB'"):
        connection.execute(f"SET {setting}")
    for query in ("make_functions", "make_inputs"):
        connection.execute(_QUERIES[query])


def _given(connection: Connection, rows: int, common: Sequence[Trigger]) -> dict[str, Any]:
    common = common or [_register(connection, COMMON, COMMON)]
    old, rare = _register(connection, OLD, COMMON), _register(connection, RARE, RARE)
    owners = [old, rare, *common]
    return {
        "rows": rows,
        # Words are added to nothing that was made in the last seconds.
        "until": datetime.now(UTC) - timedelta(minutes=1),
        "trigger_ids": [owner.id for owner in owners],
        "workflow_ids": [owner.workflow_id for owner in owners],
        "partitions": PARTITIONS,
        "old_stream_id": triggers.stream_id(connection, old, "old/0@many"),
        "stream_ids": [
            triggers.stream_id(connection, owner, f"{topic_of(place)}/{partition}@many")
            for place, owner in enumerate(common)
            for partition in range(PARTITIONS)
        ],
    }


def topic_of(place: int) -> str:
    """Return the topic of the common trigger at a place."""
    return "observations" if not place else f"observations-{place}"


def _register(connection: Connection, name: str, workflow: str) -> Trigger:
    return triggers.register(connection, name=name, type_="plain", workflow=workflow, definition={})


def _drop_words_index(connection: Connection) -> str:
    row = connection.execute(_WORDS_INDEX).fetchone()
    if row is None:
        raise LookupError("search_words_words_idx")
    connection.execute("DROP INDEX workorders.search_words_words_idx")
    return str(row[0])


def _complete_words(connection: Connection, given: Mapping[str, Any]) -> None:
    """Add the words of the rejections, as the product does, and record up to where the words are there."""
    rejected = connection.execute("SELECT work_order_id FROM workorders.rejections ORDER BY 1").fetchall()
    for start in range(0, len(rejected), search_index.STEP):
        search_index.write_index(connection, [row[0] for row in rejected[start : start + search_index.STEP]])
    written = connection.execute(
        "SELECT id FROM workorders.search_words JOIN workorders.dataclips USING (id) ORDER BY id DESC LIMIT %s",
        [_SAMPLE],
    ).fetchall()
    _compare(connection, [row[0] for row in written])
    last = written[0][0]
    again = min(last, first_id(given["until"] - search_index.LATE_AFTER))
    for name, id_ in (("words", last), ("words-again", again)):
        connection.execute("INSERT INTO workorders.history_marks (name, id) VALUES (%s, %s)", (name, id_))


def _compare(connection: Connection, ids: list[UUID]) -> None:
    query = "SELECT id, words::text FROM workorders.search_words WHERE id = ANY (%s) ORDER BY id"
    made = connection.execute(query, [ids]).fetchall()
    search_index.write_index(connection, ids)
    if made != connection.execute(query, [ids]).fetchall():
        raise RuntimeError("The words that the benchmark makes are not those that the product writes.")
