"""One look at what waits, cut into batches: bounded in rows and bytes, and nothing of a key behind what is left out."""

from collections.abc import Sequence
from typing import Any

import pytest

from local_stack.stack import LocalStack
from support.outbox import Outbox, new_outbox
from workorders.outbox import OutboxMessage
from workorders.outbox.store.backlog import BatchRequest, open_backlog
from workorders.outbox.store.leases import BUCKETS
from workorders.outbox.store.rows import ROW_BUCKET, ROW_ID, ROW_TOPIC, ROW_VALUE, BucketSlice, FetchedRows

pytestmark = pytest.mark.integration

ALL = range(BUCKETS)


@pytest.fixture
def outbox(stack: LocalStack) -> Outbox:
    return new_outbox(stack)


def write(outbox: Outbox, *sizes: int, topic: str = "t", key: str | None = "k") -> None:
    outbox.write(*(OutboxMessage(topic=topic, key=key, value=b"x" * size) for size in sizes))


def read(
    outbox: Outbox, *, messages: int = 100, most: int = 1_000_000, rows_per_fetch: int = 10, **options: Any
) -> tuple[list[FetchedRows], bool]:
    """Return all batches of one backlog, and whether it met a row that is too large."""
    request = BatchRequest(max_messages=messages, max_bytes=most)
    given = {"in_flight": (), **options}
    with (
        outbox.connect() as connection,
        open_backlog(connection, ALL, request, rows_per_fetch=rows_per_fetch, **given) as backlog,
    ):
        assert backlog is not None
        batches = []
        while (batch := backlog.next_batch()) is not None:
            batches.append(batch)
        return batches, backlog.stopped_at_oversized


def sizes(batches: Sequence[FetchedRows]) -> list[list[int]]:
    return [[len(row[ROW_VALUE] or b"") for row in batch.rows] for batch in batches]


def test_batches_have_no_more_rows_and_bytes_than_asked_for(outbox: Outbox) -> None:
    write(outbox, *[999] * 11)
    assert sizes(read(outbox, messages=4, rows_per_fetch=2)[0]) == [[999] * 4, [999] * 4, [999] * 3]
    assert sizes(read(outbox, most=5000, rows_per_fetch=2)[0]) == [*[[999] * 4] * 2, [999] * 3]


def test_a_row_too_large_for_a_fetch_ends_the_backlog_before_anything_after_it(outbox: Outbox) -> None:
    write(outbox, 10, 20, 5000, 30)
    batches, is_stopped = read(outbox, most=10_000, rows_per_fetch=10)
    assert (sizes(batches), is_stopped) == ([[10, 20]], True)
    batches, is_stopped = read(outbox, most=10_000, rows_per_fetch=10, in_flight=batches[0].slices)
    assert (batches, is_stopped) == ([], True)
    # A single one goes whatever its size.
    batches, is_stopped = read(outbox, most=4000, rows_per_fetch=1)
    assert (sizes(batches), is_stopped) == ([[10, 20], [5000], [30]], False)


def test_headers_count_for_what_is_large(outbox: Outbox) -> None:
    outbox.write(OutboxMessage(topic="t", key="k", value="1", headers=[(f"h{n}", str(n) * 9) for n in range(200)]))
    assert read(outbox, most=10_000, rows_per_fetch=10) == ([], True)


def test_headers_that_postgres_packs_small_count_as_long_as_they_are(outbox: Outbox) -> None:
    outbox.write(OutboxMessage(topic="t", key="k", value="1", headers=[("h", "x" * 5000)]))
    assert read(outbox, most=10_000, rows_per_fetch=10) == ([], True)


def test_the_longest_name_of_a_topic_is_read_like_any_other(outbox: Outbox) -> None:
    for n in range(20):
        write(outbox, 1, topic="t" * 249, key=f"k{n}")
    batches, _ = read(outbox)
    assert len(batches[0].slices) > 1
    assert sum(len(batch.rows) for batch in batches) == 20


def test_where_too_many_places_wait_each_topic_has_one_before_any_has_two(outbox: Outbox) -> None:
    for n in range(100):
        write(outbox, 1, topic=f"t{n % 20}", key=f"k{n}")
    batches, _ = read(outbox)
    assert {row[ROW_TOPIC] for batch in batches for row in batch.rows} == {f"t{n}" for n in range(20)}
    assert sum(len(batch.slices) for batch in batches) == 64


def test_what_is_under_way_is_left_out_and_a_lower_id_that_has_come_since_is_not(outbox: Outbox) -> None:
    write(outbox, 1, 2, 3)
    ids = [row[0] for row in outbox.ask("SELECT id FROM workorders.outbox_messages ORDER BY id")]
    bucket = outbox.ask("SELECT DISTINCT bucket FROM workorders.outbox_messages")[0][0]
    batches, _ = read(outbox, in_flight=[BucketSlice("t", bucket, f"{ids[1]},{ids[2]}")])
    assert [row[ROW_ID] for row in batches[0].rows] == ids[:1]


def test_topics_share_every_batch_and_the_rows_of_a_bucket_are_in_order(outbox: Outbox) -> None:
    for n in range(40):
        write(outbox, *[n] * 5, topic="many", key=f"k{n}")
    write(outbox, *[1] * 30, topic="few")
    batches, _ = read(outbox, messages=20)
    for batch in batches[:3]:
        assert sum(row[ROW_TOPIC] == "few" for row in batch.rows) >= 5
        assert sum(row[ROW_TOPIC] == "many" for row in batch.rows) >= 5
        assert len({(part.topic, part.bucket) for part in batch.slices}) == len(batch.slices)
    rows = [row for batch in batches for row in batch.rows]
    assert len(rows) == 230
    for bucket in ALL:
        ids = [row[ROW_ID] for row in rows if row[ROW_BUCKET] == bucket and row[ROW_TOPIC] == "many"]
        assert ids == sorted(ids)


def test_nothing_is_read_ahead_while_a_key_is_held_or_something_held_is_due(outbox: Outbox) -> None:
    write(outbox, 1)
    request = BatchRequest(max_messages=10, max_bytes=1000)
    for kind, when in (("key", "now() + interval '1 hour'"), ("topic", "now() - interval '1 second'")):
        outbox.ask("DELETE FROM workorders.outbox_holds")
        outbox.ask(
            f"""
            INSERT INTO workorders.outbox_holds (kind, topic, bucket, key, reason, next_try_at)
            VALUES ('{kind}', 't', {"3, 'k'" if kind == "key" else "NULL, NULL"}, 'no', {when})
            """
        )
        with (
            outbox.connect() as connection,
            open_backlog(connection, ALL, request, in_flight=(), rows_per_fetch=10) as backlog,
        ):
            assert backlog is None
