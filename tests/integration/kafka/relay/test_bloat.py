"""The tables stay small while messages come and go."""

import threading
from collections.abc import Iterator

import psycopg
import pytest

from local_stack.postgres import SUPERUSER
from local_stack.stack import DATABASE, LocalStack
from support.outbox import Outbox, new_outbox
from support.topics import Topics
from workorders.outbox import OutboxMessage

pytestmark = pytest.mark.integration

ROUNDS = 14
MESSAGES = 3000
BYTES = 1100
MOST_BYTES = 24 * 1024 * 1024


@pytest.fixture
def frequent_vacuum(stack: LocalStack) -> Iterator[None]:
    """Postgres looks every second, and not every minute, whether a table has rows to be removed."""
    with psycopg.connect(stack.postgres.url(DATABASE, role=SUPERUSER), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET autovacuum_naptime = '1s'")
        connection.execute("SELECT pg_reload_conf()")
        yield
        connection.execute("ALTER SYSTEM RESET autovacuum_naptime")
        connection.execute("SELECT pg_reload_conf()")


@pytest.mark.usefixtures("frequent_vacuum")
def test_a_warm_relay_lets_the_space_of_sent_messages_be_used_again(
    stack: LocalStack, topics: Topics, name: str
) -> None:
    topics.create(name, partitions=2)
    outbox = new_outbox(stack)
    stopped = threading.Event()
    relay = threading.Thread(target=outbox.drain_until, args=(stopped,))
    relay.start()
    try:
        sizes = [size_after(outbox, name) for _ in range(ROUNDS)]
    finally:
        stopped.set()
        relay.join()
    written = ROUNDS * MESSAGES * BYTES
    assert written > 1.5 * MOST_BYTES
    assert max(sizes) < MOST_BYTES, sizes


def size_after(outbox: Outbox, topic: str) -> int:
    """Write messages, and return the bytes of all of the outbox's tables."""
    outbox.write(*(OutboxMessage(topic=topic, key=f"k{n % 100}", value=b"x" * BYTES) for n in range(MESSAGES)))
    size = outbox.ask(
        "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND relname LIKE 'outbox%%'"
    )
    return int(size[0][0])
