"""Messages enter the outbox in the writer's own transaction, or fail there."""

import asyncio
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID, uuid4

import psycopg
import psycopg2  # type: ignore[import-untyped]
import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from local_stack.stack import LocalStack
from support.eventually import eventually
from workorders.core.exceptions import KeysBusyError
from workorders.core.items import Message
from workorders.core.postgres.connection import Connection
from workorders.outbox import OutboxMessage, OutboxMessageError, enqueue, publish
from workorders.outbox.enqueue import enqueue_published
from workorders.outbox.relay.producer import record_headers

pytestmark = pytest.mark.integration

Writer = Callable[[], Connection]


def rows(connection: Connection, topic: str) -> list[tuple[Any, ...]]:
    return connection.execute(
        """
        SELECT key, value, headers, partition, timestamp_ms, event_id FROM workorders.outbox_messages
        WHERE topic = %s ORDER BY id
        """,
        [topic],
    ).fetchall()


def test_messages_wait_in_the_order_given_once_the_transaction_has_committed(writer: Writer, name: str) -> None:
    connection, reader = writer(), writer()
    known = uuid4()
    ids = enqueue(
        connection,
        [
            OutboxMessage(topic=name, key=b"k", value=b"\0raw", headers=[("a", "1"), ("a", b"\xff"), ("b", None)]),
            OutboxMessage(topic=name, key="k", value={"n": 1}, partition=2, timestamp_ms=5, event_id=known),
            OutboxMessage(topic=name, key="k", value=None),
        ],
    )
    assert rows(reader, name) == []
    connection.commit()
    assert rows(reader, name) == [
        (b"k", b"\0raw", [["a", "1"], ["a", {"base64": "/w=="}], ["b", None]], None, None, ids[0]),
        (b"k", b'{"n":1}', None, 2, 5, known),
        (b"k", None, None, None, None, ids[2]),
    ]


def test_one_message_is_published_with_all_that_a_message_can_have(writer: Writer, name: str) -> None:
    connection, known = writer(), uuid4()
    with connection.transaction():
        given = publish(
            connection, name, {"n": 1}, key="k", headers=[("h", "v")], partition=3, timestamp_ms=7, event_id=known
        )
        made_up = publish(connection, name, None)
    assert given == known
    assert rows(connection, name) == [
        (b"k", b'{"n":1}', [["h", "v"]], 3, 7, known),
        (None, None, None, None, None, made_up),
    ]


def test_a_rolled_back_writer_leaves_nothing(writer: Writer, name: str) -> None:
    connection = writer()
    enqueue(connection, OutboxMessage(topic=name, value="x"))
    connection.rollback()
    assert rows(connection, name) == []


def test_sql_alone_is_enough(writer: Writer, name: str) -> None:
    connection = writer()
    with connection.transaction():
        connection.execute("SELECT workorders.enqueue(%s::text, 'k', 'text')", [name])
        connection.execute("SELECT workorders.enqueue(%s::text, 'k', NULL)", [name])
        connection.execute("""SELECT workorders.enqueue(%s::text, 'k', '{"a": 1}'::jsonb, '[["h", "v"]]')""", [name])
        connection.execute(r"SELECT workorders.enqueue(%s::text, '\x01'::bytea, '\x02'::bytea)", [name])
    found = [row[:3] for row in rows(connection, name)]
    assert found == [(b"k", b"text", None), (b"k", None, None), (b"k", b'{"a": 1}', [["h", "v"]]), (b"\1", b"\2", None)]


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_a_sqlalchemy_connection_or_session_carries_messages(
    stack: LocalStack, writer: Writer, name: str, driver: str
) -> None:
    engine = create_engine(stack.database_url.replace("postgresql://", f"postgresql+{driver}://"))
    message = OutboxMessage(topic=name, key=b"\0k", value=b"\xfe", headers=[("h", "v")])
    with engine.begin() as connection:
        (first,) = enqueue(connection, message)
    with Session(engine) as session:
        (second,) = enqueue(session, message)
        session.commit()
    with engine.connect() as connection, pytest.raises(OutboxMessageError, match="its partition is negative"):
        enqueue(connection, OutboxMessage(topic=name, value="x", partition=-1))
    engine.dispose()
    assert [row[5] for row in rows(writer(), name)] == [first, second]
    assert rows(writer(), name)[0][:3] == (b"\0k", b"\xfe", [["h", "v"]])


def test_an_asynchronous_session_publishes_through_its_synchronous_one(
    stack: LocalStack, writer: Writer, name: str
) -> None:
    async def write() -> None:
        engine = create_async_engine(stack.database_url.replace("postgresql://", "postgresql+psycopg://"))
        async with AsyncSession(engine) as session, session.begin():
            await session.run_sync(publish, name, {"n": 1}, key="k")
        await engine.dispose()

    asyncio.run(write())
    assert [row[:2] for row in rows(writer(), name)] == [(b"k", b'{"n":1}')]


def test_what_is_no_synchronous_connection_is_refused_with_what_is_accepted(
    stack: LocalStack, writer: Writer, name: str
) -> None:
    engine = create_engine(stack.database_url.replace("postgresql://", "postgresql+psycopg://"))
    with psycopg2.connect(stack.database_url) as other, writer().cursor() as cursor:
        loop = asyncio.new_event_loop()
        asynchronous = loop.run_until_complete(psycopg.AsyncConnection.connect(stack.database_url))
        for given in (asynchronous, other, other.cursor(), cursor, engine, None, stack.database_url):
            with pytest.raises(TypeError, match=r"nothing was enqueued\. Give a psycopg\.Connection, or a Connection"):
                publish(given, name, "x")  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="The outbox cannot use a connection of the type"):
                enqueue(given, [])  # type: ignore[arg-type]
        loop.run_until_complete(asynchronous.close())
        loop.close()
    engine.dispose()
    assert rows(writer(), name) == []


def test_headers_are_a_mapping_or_pairs_and_nothing_else(writer: Writer, name: str) -> None:
    connection = writer()
    mapping: dict[str, str | bytes | None] = {"id": "17", "b": b"\xff"}
    publish(connection, name, None, headers=mapping)
    publish(connection, name, None, headers=iter([("id", "17"), ("id", None)]))
    assert [row[2] for row in rows(connection, name)] == [
        [["id", "17"], ["b", {"base64": "/w=="}]],
        [["id", "17"], ["id", None]],
    ]
    for headers in ("id", ["id"], [("a", "b", "c")], 17, None, b"id"):
        with pytest.raises(TypeError, match="headers are a mapping of names to values, or pairs"):
            publish(connection, name, "x", headers=headers)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"topic": "no topic"}, "its topic is no name that Kafka takes"),
        ({"topic": ".."}, "its topic is no name that Kafka takes"),
        ({"value": b"x" * 1_000_000}, "its 1000128 bytes are more than the 1000000 that are allowed"),
        ({"partition": -1}, "its partition is negative"),
        ({"timestamp_ms": -1}, "its timestamp is 0, which Kafka's client takes for none, or negative"),
        ({"timestamp_ms": 0}, "its timestamp is 0, which Kafka's client takes for none, or negative"),
        ({"key": 1}, "its key is int and not bytes, str or None"),
        ({"value": object()}, "its value is not JSON: the value is of the type object"),
        ({"value": {"a": [math.nan]}}, "its value is not JSON: the value at /a/0 is nan, a number that JSON does not"),
        ({"headers": [("a", 1)]}, "a header's value is int and not bytes, str or None"),
    ],
)
def test_what_cannot_be_sent_fails_in_the_writers_transaction(
    writer: Writer, name: str, change: dict[str, Any], fault: str
) -> None:
    connection = writer()
    bad = OutboxMessage(**{"topic": name, "value": "x", **change})
    with pytest.raises(OutboxMessageError, match=fault) as raised:
        enqueue(connection, [OutboxMessage(topic=name, value="good"), bad])
    assert str(raised.value).endswith("nothing was enqueued.")
    connection.rollback()
    assert rows(connection, name) == []


def test_headers_of_another_form_are_refused_from_sql_too(writer: Writer, name: str) -> None:
    connection = writer()
    texts = ("?", "abc", "abcde", "ab=", "a===", "=", "YQ==YQ==")
    unread = (*(f'[["a", {{"base64": "{text}"}}]]' for text in texts), '[["a", {"base64": 1234}]]')
    for headers in ('{"a": "b"}', '["a"]', '[["a"]]', '[[1, "b"]]', '[["a", 1]]', *unread):
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="its headers are no array of pairs"):
            connection.execute("SELECT workorders.enqueue(%s::text, 'k', 'v', %s)", [name, headers])
        connection.rollback()


@pytest.mark.parametrize("size", range(8))
def test_bytes_of_every_length_are_headers(writer: Writer, name: str, size: int) -> None:
    connection = writer()
    value = b"\xff" * size
    enqueue(connection, OutboxMessage(topic=name, key="k", value="v", headers=[("a", value)]))
    ((_, _, headers, *_),) = rows(connection, name)
    assert record_headers(headers, None, None) in ([("a", value)], [("a", value.decode(errors="ignore"))])


def test_writers_of_one_key_take_turns_and_others_do_not_wait(writer: Writer, name: str) -> None:
    """The second writer of a key draws its id after the first has committed: ids of a key grow in commit order."""
    first, second, other = writer(), writer(), writer()
    enqueue(first, OutboxMessage(topic=name, key="k", value="1"))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(enqueue, second, OutboxMessage(topic=name, key="k", value="2"))
        eventually(lambda: waits(other, second), seconds=30, what="The second writer waiting for the first")
        enqueue(other, [OutboxMessage(topic=name, key="another", value="3"), OutboxMessage(topic=name, value="4")])
        other.commit()
        enqueue(first, OutboxMessage(topic=name, key="k", value="5"))
        assert not waiting.done()
        first.commit()
        waiting.result(30)
    second.commit()
    assert [value for key, value, *_ in rows(other, name) if key == b"k"] == [b"1", b"5", b"2"]
    assert {value for _, value, *_ in rows(other, name)} == {b"1", b"2", b"3", b"4", b"5"}


def test_a_writer_of_many_keys_takes_a_sixth_of_the_lock_table_at_most_and_still_takes_its_turn(
    writer: Writer, name: str
) -> None:
    bulk, single, looker = writer(), writer(), writer()
    for part in range(2):
        enqueue(bulk, [OutboxMessage(topic=name, key=f"k{part}-{n}", value="bulk") for n in range(5000)])
    assert locks(looker, bulk) <= 1024
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(enqueue, single, OutboxMessage(topic=name, key="k0-77", value="single"))
        eventually(lambda: waits(looker, single), seconds=30, what="The single writer waiting for the bulk")
        bulk.commit()
        waiting.result(30)
    single.commit()
    assert [value for key, value, *_ in rows(looker, name) if key == b"k0-77"] == [b"bulk", b"single"]


def test_a_transaction_with_many_messages_of_one_key_locks_that_key_alone(writer: Writer, name: str) -> None:
    first, looker = writer(), writer()
    for n in range(300):
        publish(first, name, str(n), key="k")
    assert locks(looker, first) == 1


def test_two_calls_that_write_the_same_keys_in_other_orders_do_not_deadlock(writer: Writer, name: str) -> None:
    holder, looker, first, second = writer(), writer(), writer(), writer()
    publish(holder, name, "x", key="held")

    def write(connection: Connection, keys: list[str]) -> None:
        enqueue(connection, [OutboxMessage(topic=name, key=key, value="x") for key in keys])
        connection.commit()

    with ThreadPoolExecutor() as pool:
        writes = [pool.submit(write, first, ["a", "held", "b"]), pool.submit(write, second, ["b", "held", "a"])]
        eventually(lambda: waits(looker, first) and waits(looker, second), seconds=30, what="Both writers waiting")
        holder.rollback()
        for write_ in writes:
            write_.result(30)


def test_runs_whose_keys_are_busy_are_named_and_nothing_is_enqueued(writer: Writer, name: str) -> None:
    application, worker, looker = writer(), writer(), writer()
    publish(application, name, "x", key="busy")
    runs = {key: uuid4() for key in (b"busy", b"free", None)}
    messages = [Message(name, key, b"x", (), run_id=run) for key, run in runs.items()]
    begun = time.monotonic()
    with pytest.raises(KeysBusyError) as raised:
        enqueue_published(worker, messages)
    assert raised.value.run_ids == {runs[b"busy"]}
    assert time.monotonic() - begun < 10
    worker.rollback()
    assert rows(looker, name) == []


def test_the_ids_returned_are_those_in_the_table(writer: Writer, name: str) -> None:
    connection = writer()
    ids = enqueue(connection, [OutboxMessage(topic=name, value=str(n)) for n in range(100)])
    assert [row[5] for row in rows(connection, name)] == ids
    assert all(isinstance(event_id, UUID) for event_id in ids)


def test_a_writer_needs_no_right_but_to_call_the_function(stack: LocalStack, writer: Writer, name: str) -> None:
    owner, role = writer(), f"writer_{uuid4().hex[:8]}"
    with psycopg.connect(stack.postgres.url("workorders", role="postgres"), autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {role}")
        admin.execute(f"GRANT {role} TO workorders")
    owner.execute(f"GRANT USAGE ON SCHEMA workorders TO {role}")
    owner.execute(f"SET LOCAL ROLE {role}")
    with pytest.raises(psycopg.errors.InsufficientPrivilege), owner.transaction():
        enqueue(owner, OutboxMessage(topic=name, value="x"))
    owner.execute("RESET ROLE")
    owner.execute(f"GRANT EXECUTE ON FUNCTION workorders.enqueue_many TO {role}")
    owner.execute(f"SET LOCAL ROLE {role}")
    enqueue(owner, OutboxMessage(topic=name, key="k", value="x"))
    with pytest.raises(psycopg.errors.InsufficientPrivilege), owner.transaction():
        rows(owner, name)
    owner.execute("RESET ROLE")
    assert len(rows(owner, name)) == 1


def waits(looker: Connection, waiting: Connection) -> bool:
    looker.rollback()
    query = "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %s"
    return bool((looker.execute(query, [waiting.info.backend_pid]).fetchone() or [False])[0])


def locks(looker: Connection, holder: Connection) -> int:
    query = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = %s"
    return int((looker.execute(query, [holder.info.backend_pid]).fetchone() or [0])[0])
