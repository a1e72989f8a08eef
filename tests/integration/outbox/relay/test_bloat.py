"""The tables stay small while messages come and go."""

import threading

import psycopg
import pytest

from local_stack.stack import LocalStack
from support.eventually import eventually
from support.outbox import Outbox, new_outbox
from support.topics import Topics
from workorders.outbox import OutboxMessage

pytestmark = pytest.mark.integration

ROUNDS = 14
MESSAGES = 3000
BYTES = 1100
MOST_BYTES = 5 * MESSAGES * BYTES


def test_a_warm_relay_lets_the_space_of_sent_messages_be_used_again(
    stack: LocalStack, topics: Topics, name: str
) -> None:
    topics.create(name, partitions=2)
    outbox = new_outbox(stack)
    stopped = threading.Event()
    relay = threading.Thread(target=outbox.relay_until, args=(stopped,))
    relay.start()
    try:
        sizes = [size_after(outbox, name) for _ in range(ROUNDS)]
    finally:
        stopped.set()
        relay.join()
    assert max(sizes) < MOST_BYTES, sizes


def size_after(outbox: Outbox, topic: str) -> int:
    """Write messages, do what Postgres does by itself every minute, and return the bytes of the outbox's tables."""
    outbox.write(*(OutboxMessage(topic=topic, key=f"k{n % 100}", value=b"x" * BYTES) for n in range(MESSAGES)))
    eventually(lambda: outbox.waiting() <= MESSAGES, seconds=120, what="The relay's keeping up")
    with psycopg.connect(outbox.database_url, autocommit=True) as connection:
        for table in ("messages", "claims", "shards", "counters"):
            connection.execute(f"VACUUM workorders.outbox_{table}".encode())
    size = outbox.ask(
        "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND relname LIKE 'outbox%%'"
    )
    return int(size[0][0])
