"""A whole database restored from a backup, while Kafka and the group's offset have gone on."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from local_stack.stack import LocalStack
from support.groups import commit
from support.in_process_trigger import InProcessTrigger, kept
from support.topics import Topics
from workorders.core import schema
from workorders.core.postgres.connection import connect
from workorders.kafka.ledger import positions as ledger
from workorders.kafka.partitions import Partition

pytestmark = pytest.mark.integration


@pytest.fixture
def server(stack: LocalStack) -> Iterator[psycopg.Connection]:
    """A connection that may make and drop databases."""
    with psycopg.connect(stack.postgres.url("postgres", role="postgres"), autocommit=True) as connection:
        yield connection


@pytest.fixture
def database(stack: LocalStack, server: psycopg.Connection, name: str) -> Iterator[str]:
    """The name of a database with the tables of work orders; what is called like it is dropped at the end."""
    stack.postgres.create_database(name)
    schema.upgrade(stack.postgres.url(name))
    yield name
    for made in (name, f"{name}-backup"):
        server.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(made)))
    server.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


def copy(server: psycopg.Connection, source: str, target: str, owner: str) -> None:
    """Make a database that is as another one is now."""
    statement = "CREATE DATABASE {} TEMPLATE {} OWNER {}"
    server.execute(sql.SQL(statement).format(*map(sql.Identifier, (target, source, owner))))


def positions(url: str, trigger: str) -> dict[Partition, int]:
    """Return the ledger's position of a trigger."""
    with connect(url) as connection:
        return {
            partition: position.next_offset for partition, position in ledger.positions(connection, trigger).items()
        }


def test_what_came_after_the_backup_is_read_again_though_the_group_is_ahead(
    stack: LocalStack, topics: Topics, server: psycopg.Connection, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, name, backup = stack.postgres.url(database), database, f"{database}-backup"
    monkeypatch.setattr(LocalStack, "database_url", url)
    topics.create(name)
    topics.produce(name, [b"{}"] * 10)
    kafka_trigger = InProcessTrigger(stack, name, topics=[name])
    kafka_trigger.until_idle()
    copy(server, database, backup, database)
    topics.produce(name, [b"{}"] * 10)
    kafka_trigger.until_idle()
    reached = positions(url, name)
    assert list(reached.values()) == [20]
    commit(kafka_trigger.cluster, kafka_trigger.definition.consumer_group, reached)

    server.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(database)))
    copy(server, backup, database, database)
    assert len(kafka_trigger.until_idle()) == 1

    with connect(url) as connection:
        assert list(kept(connection, name).values()) == [list(range(20))]
    assert positions(url, name) == reached
