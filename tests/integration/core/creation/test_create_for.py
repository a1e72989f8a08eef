import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from local_stack.stack import LocalStack
from support.work_orders import REQUEST, accepted, accepted_range, keys, positions, rejected
from workorders.core.creation import work_orders
from workorders.core.creation.work_orders import Created, create_for
from workorders.core.exceptions import DuplicateItemsError
from workorders.core.ids import increasing_ids
from workorders.core.items import Item
from workorders.core.postgres.connection import Connection, connect
from workorders.core.triggers import Trigger

pytestmark = pytest.mark.integration

# Contract broken on purpose: the mapping of records lets none of these through.
REFUSED_BY_POSTGRES = [
    rb'{"a":"\u0000"}',
    b'{"a":1e999999}',
    b'{"a":NaN}',
    b'{"a":"\xff"}',
    b"{",
    b'{"a":' * 20_000 + b"1" + b"}" * 20_000,
]


@pytest.fixture(params=["fresh", "not fresh"])
def fresh(request: pytest.FixtureRequest) -> bool:
    """Both ways of writing must do the same."""
    return bool(request.param == "fresh")


@pytest.fixture
def other_connection(stack: LocalStack) -> Iterator[Connection]:
    with connect(stack.database_url) as other:
        yield other


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_orders, "CHUNK_ITEMS", 4)


def rejections(connection: Connection, trigger: Trigger) -> list[tuple[int, str, str, bytes | None]]:
    return connection.execute(
        """
        SELECT work_orders.position, rejections.code, rejections.detail, rejections.raw
        FROM workorders.rejections JOIN workorders.work_orders ON work_orders.id = rejections.work_order_id
        WHERE work_orders.trigger_id = %s AND work_orders.state = 'rejected'
        ORDER BY work_orders.id
        """,
        (trigger.id,),
    ).fetchall()


def test_every_item_is_counted_as_what_it_became(connection: Connection, trigger: Trigger, fresh: bool) -> None:
    items = [accepted("s", 0), rejected("s", 1), accepted("s", 2), accepted("other", 0)]
    assert create_for(connection, trigger, items, fresh=fresh) == Created(3, 1, 0)


def test_a_work_order_has_the_trigger_the_workflow_and_the_input(
    connection: Connection, trigger: Trigger, fresh: bool
) -> None:
    body = '{"name": "Zoë 🦉", "n": [1, 2.50, null], "name": "last wins"}'
    create_for(connection, trigger, [Item("s", 5, b'{"offset": 5}', body.encode())], fresh=fresh)
    row = connection.execute(
        """
        SELECT work_orders.trigger_id, work_orders.workflow_id, work_orders.state, work_orders.position, body, request
        FROM workorders.work_orders JOIN workorders.dataclips USING (id) WHERE trigger_id = %s
        """,
        (trigger.id,),
    ).fetchone()
    assert row == (trigger.id, trigger.workflow_id, "pending", 5, json.loads(body), {"offset": 5})


def test_a_rejected_item_keeps_its_reason_and_its_raw_bytes(
    connection: Connection, trigger: Trigger, fresh: bool
) -> None:
    items = [rejected("s", 0, b"\xff\0rubbish"), rejected("s", 1, b""), rejected("s", 2, None)]
    assert create_for(connection, trigger, items, fresh=fresh) == Created(0, 3, 0)
    assert rejections(connection, trigger) == [
        (0, "not-json", "rubbish at character 1", b"\xff\0rubbish"),
        (1, "not-json", "rubbish at character 1", b""),
        (2, "not-json", "rubbish at character 1", None),
    ]


def test_an_item_with_neither_input_nor_reason_is_rejected_with_a_reason(
    connection: Connection, trigger: Trigger, fresh: bool
) -> None:
    assert create_for(connection, trigger, [Item("s", 0, REQUEST, None)], fresh=fresh) == Created(0, 1, 0)
    assert rejections(connection, trigger) == [(0, "no-input", "the source gave neither an input nor a reason", None)]


@pytest.mark.parametrize("count", [3, 4, 5, 8, 9])
def test_chunks_lose_nothing_at_their_borders(
    connection: Connection, trigger: Trigger, fresh: bool, small_chunks: None, count: int
) -> None:
    items = iter(accepted_range("s", 0, count))
    assert create_for(connection, trigger, items, fresh=fresh) == Created(count, 0, 0)
    assert positions(connection, trigger, "s") == list(range(count))


@pytest.mark.parametrize("fresh", [True, False])
def test_large_items_are_written_before_they_fill_the_memory(
    connection: Connection, trigger: Trigger, fresh: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_orders, "CHUNK_BYTES", 1000)
    taken = named = most_waiting = 0

    def ids() -> Iterator[bytes]:
        nonlocal named
        for id_ in increasing_ids():
            named += 1
            yield id_

    def items() -> Iterator[Item]:
        nonlocal taken, most_waiting
        for position in range(10):
            most_waiting = max(most_waiting, taken - named)
            taken += 1
            yield accepted("s", position, b'{"a":"%b"}' % (b"x" * 400))

    assert create_for(connection, trigger, items(), fresh=fresh, ids=ids()) == Created(10, 0, 0)
    assert most_waiting <= 2


def test_the_next_items_are_read_while_postgres_stores_those_before(
    connection: Connection, other_connection: Connection, trigger: Trigger, fresh: bool, small_chunks: None
) -> None:
    at_work = []

    def items() -> Iterator[Item]:
        for item in accepted_range("s", 0, 12):
            row = other_connection.execute(
                "SELECT state, query FROM pg_stat_activity WHERE pid = %s", (connection.info.backend_pid,)
            ).fetchone()
            at_work.append(row is not None and row[0] == "active" and row[1].startswith("COPY"))
            other_connection.rollback()
            yield item

    assert create_for(connection, trigger, items(), fresh=fresh) == Created(12, 0, 0)
    assert at_work == [False] * 4 + [True] * 8


@pytest.mark.parametrize("error", [psycopg.DataError, RuntimeError])
def test_an_error_of_the_source_is_raised_and_not_taken_for_one_of_the_values_that_are_written_meanwhile(
    connection: Connection, trigger: Trigger, fresh: bool, small_chunks: None, error: type[Exception]
) -> None:
    def items() -> Iterator[Item]:
        yield from accepted_range("s", 0, 5)
        raise error("the source's own")

    with pytest.raises(error, match="the source's own"), connection.transaction():
        create_for(connection, trigger, items(), fresh=fresh)
    assert keys(connection, trigger) == []


def test_ids_are_in_the_order_of_the_items(
    connection: Connection, trigger: Trigger, fresh: bool, small_chunks: None
) -> None:
    order = [(stream, position) for position in (9, 3, 7, 5, 1) for stream in ("b", "a")]
    items = [accepted(*key) if key[1] != 7 else rejected(*key) for key in order]
    create_for(connection, trigger, items, fresh=fresh)
    assert keys(connection, trigger) == order


def test_a_rollback_leaves_nothing(connection: Connection, trigger: Trigger, fresh: bool, small_chunks: None) -> None:
    create_for(connection, trigger, [*accepted_range("s", 0, 9), rejected("s", 9)], fresh=fresh)
    assert connection.info.transaction_status is TransactionStatus.INTRANS
    connection.rollback()
    assert keys(connection, trigger) == []


def test_a_repeated_source_key_creates_nothing_and_is_counted(
    connection: Connection, trigger: Trigger, small_chunks: None
) -> None:
    create_for(connection, trigger, accepted_range("s", 2, 5))
    again = [*accepted_range("s", 0, 7), rejected("s", 7)]
    assert create_for(connection, trigger, again) == Created(4, 1, 3)
    assert create_for(connection, trigger, again) == Created(0, 0, 8)
    assert sorted(position for _, position in keys(connection, trigger) if position is not None) == list(range(8))


def test_a_repeated_key_keeps_the_first_input(connection: Connection, trigger: Trigger) -> None:
    create_for(connection, trigger, [accepted("s", 0, b'{"a":"first"}')])
    assert create_for(connection, trigger, [accepted("s", 0, b'{"a":"second"}')]) == Created(0, 0, 1)
    assert create_for(connection, trigger, [rejected("s", 0)]) == Created(0, 0, 1)
    bodies = connection.execute(
        "SELECT body FROM workorders.dataclips JOIN workorders.work_orders USING (id) WHERE trigger_id = %s",
        (trigger.id,),
    ).fetchall()
    assert bodies == [({"a": "first"},)]


def test_a_key_that_is_twice_in_one_call_is_created_once(
    connection: Connection, trigger: Trigger, small_chunks: None
) -> None:
    same_chunk, later_chunk = accepted("s", 1), accepted("s", 0)
    items = [accepted("s", 0), accepted("s", 1), same_chunk, accepted("s", 2), later_chunk]
    assert create_for(connection, trigger, items) == Created(3, 0, 2)
    assert positions(connection, trigger, "s") == [0, 1, 2]


def test_of_a_key_that_is_twice_in_one_call_the_first_input_is_kept(connection: Connection, trigger: Trigger) -> None:
    items = [accepted("s", place // 2, b'{"place":%d}' % place) for place in range(40)]
    assert create_for(connection, trigger, items) == Created(20, 0, 20)
    places = connection.execute(
        "SELECT (body ->> 'place')::integer FROM workorders.dataclips JOIN workorders.work_orders USING (id) "
        "WHERE trigger_id = %s ORDER BY id",
        (trigger.id,),
    ).fetchall()
    assert [place for (place,) in places] == list(range(0, 40, 2))


def test_the_same_position_in_another_stream_or_of_another_trigger_is_another_event(
    connection: Connection, trigger: Trigger, name: str
) -> None:
    from workorders.core.triggers import register

    other = register(connection, name=f"{name}-other", type_="kafka", workflow="admit", definition={})
    assert create_for(connection, trigger, [accepted("s", 0), accepted("t", 0)]) == Created(2, 0, 0)
    assert create_for(connection, other, [accepted("s", 0)]) == Created(1, 0, 0)


@pytest.mark.parametrize("before", [True, False], ids=["there before", "twice in one call"])
def test_a_duplicate_among_new_events_is_an_error_that_creates_nothing(
    connection: Connection, trigger: Trigger, small_chunks: None, before: bool
) -> None:
    if before:
        create_for(connection, trigger, [accepted("s", 5)])
        connection.commit()
    items = [*accepted_range("s", 0, 9), *([] if before else [accepted("s", 5)])]
    with pytest.raises(DuplicateItemsError) as raised, connection.transaction():
        create_for(connection, trigger, items, fresh=True)
    assert str(raised.value).startswith(
        f"Trigger {trigger.name} announced new events, but one of them has a work order"
    )
    assert '(Key (stream_id, "position")=(' in str(raised.value)
    assert ", 5) already exists.); nothing was created." in str(raised.value)
    assert positions(connection, trigger, "s") == ([5] if before else [])


@pytest.mark.parametrize("fresh", [True, False])  # the items of a block have source keys
def test_events_without_a_source_key_are_all_created(connection: Connection, trigger: Trigger, fresh: bool) -> None:
    items = [accepted(None, None), accepted(None, None), rejected(None, None), accepted("s", 0)]
    assert create_for(connection, trigger, items, fresh=fresh) == Created(3, 1, 0)
    assert keys(connection, trigger) == [(None, None), (None, None), (None, None), ("s", 0)]


@pytest.mark.parametrize(
    "body", REFUSED_BY_POSTGRES, ids=[body[:12].decode(errors="replace") for body in REFUSED_BY_POSTGRES]
)
def test_a_value_that_postgres_refuses_is_rejected_and_its_neighbours_are_created(
    connection: Connection, trigger: Trigger, fresh: bool, body: bytes
) -> None:
    items = [accepted("s", 0), accepted("s", 1), accepted("s", 2, body), rejected("s", 3), accepted("s", 4)]
    assert create_for(connection, trigger, items, fresh=fresh) == Created(3, 2, 0)
    assert positions(connection, trigger, "s") == [0, 1, 2, 3, 4]
    position, code, detail, raw = rejections(connection, trigger)[0]
    assert (position, code, raw) == (2, "refused-by-postgres", body)
    assert detail.startswith("Postgres cannot store it: ")
    connection.commit()


def test_a_batch_of_nothing_but_refused_values_is_rejected_one_by_one(
    connection: Connection, trigger: Trigger, fresh: bool, small_chunks: None
) -> None:
    items = [accepted("s", position, REFUSED_BY_POSTGRES[position % 4]) for position in range(11)]
    assert create_for(connection, trigger, items, fresh=fresh) == Created(0, 11, 0)
    assert [position for position, *_ in rejections(connection, trigger)] == list(range(11))


def test_a_request_that_postgres_refuses_breaks_the_contract_and_is_not_hidden(
    connection: Connection, trigger: Trigger, fresh: bool
) -> None:
    with pytest.raises(psycopg.DataError), connection.transaction():
        create_for(connection, trigger, [accepted("s", 0), Item("s", 1, b"{", b"{}")], fresh=fresh)
    assert keys(connection, trigger) == []


def test_two_writers_of_the_same_keys_at_once_create_each_key_once(
    stack: LocalStack, connection: Connection, trigger: Trigger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_orders, "CHUNK_ITEMS", 50)
    barrier = Barrier(2)

    def write() -> Created:
        with connect(stack.database_url) as own:
            barrier.wait(30)
            created = create_for(own, trigger, accepted_range("s", 0, 500))
            own.commit()
            return created

    with ThreadPoolExecutor(2) as pool:
        first, second = (future.result(60) for future in [pool.submit(write), pool.submit(write)])
    assert first + second == Created(500, 0, 500)
    assert sorted(position for _, position in keys(connection, trigger) if position is not None) == list(range(500))


def test_of_two_writers_that_both_promise_new_events_one_fails(
    stack: LocalStack, connection: Connection, trigger: Trigger
) -> None:
    create_for(connection, trigger, accepted_range("s", 0, 3), fresh=True)
    with ThreadPoolExecutor(1) as pool, connect(stack.database_url) as own:
        second = pool.submit(create_for, own, trigger, accepted_range("s", 2, 5), fresh=True)
        connection.commit()
        with pytest.raises(DuplicateItemsError):
            second.result(60)
        own.rollback()
    assert positions(connection, trigger, "s") == [0, 1, 2]
