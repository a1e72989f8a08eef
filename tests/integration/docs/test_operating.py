"""The roles that the pages set up can do what the package does, and no more."""

from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from local_stack.postgres import SUPERUSER
from local_stack.stack import LocalStack
from support.executing import Executing
from support.ingesting import attempt, finish, no_proof, partition_of, plan, same_log
from support.work_orders import accepted_range
from workorders.core import schema, triggers
from workorders.core.attribution import Attribution
from workorders.core.bulk import jobs, runner
from workorders.core.history.filters import Filter
from workorders.core.maintenance import retention
from workorders.core.postgres.connection import Connection, connect
from workorders.core.triggers import Trigger
from workorders.kafka.ingest.transaction import ingest
from workorders.kafka.ledger import batches, positions, stalls
from workorders.kafka.ledger.positions import stream_name
from workorders.kafka.partitions import OffsetRange
from workorders.kafka.recovery.resolution import list_decisions
from workorders.outbox import admin
from workorders.outbox.enqueue import enqueue_published

pytestmark = pytest.mark.integration

ROLES = ("workorders_writer", "workorders_reader")
_PASSWORD = "of-a-test"


@pytest.fixture(scope="module")
def granted(stack: LocalStack) -> Iterator[None]:
    """The roles that an upgrade creates, with their rights, and passwords."""
    administrator = make_conninfo(stack.postgres.url(SUPERUSER), dbname="workorders")
    schema.upgrade(administrator, with_roles=True)
    with psycopg.connect(administrator, autocommit=True) as server:
        for role in ROLES:
            server.execute(f"ALTER ROLE {role} PASSWORD '{_PASSWORD}'")
        yield
        for role in (*ROLES, schema.OWNER):
            server.execute(f"DROP OWNED BY {role}")
            server.execute(f"DROP ROLE {role}")


def url_of(stack: LocalStack, role: str) -> str:
    """Return the work orders' database as this role reaches it."""
    return make_conninfo(stack.database_url, user=role, password=_PASSWORD)


@pytest.fixture
def writer(stack: LocalStack, granted: None) -> Iterator[Connection]:
    """A connection of the writer."""
    with connect(url_of(stack, "workorders_writer")) as connection:
        yield connection
        connection.rollback()


def test_the_writer_may_plan_ingest_replay_stall_and_commit(stack: LocalStack, writer: Connection, name: str) -> None:
    trigger = triggers.register(writer, name=name, type_="kafka", workflow="admit", definition={})
    positions.lock_trigger(writer, trigger)
    range_ = OffsetRange(partition_of(name), 0, 5)
    stream = stream_name(range_.partition)
    batch_id = plan(writer, trigger, range_)
    first = attempt(writer, batch_id)
    positions.stall(writer, trigger, range_, epoch=first.epoch, error="away")
    writer.commit()
    assert len(stalls.claim_alerts(writer, trigger, after_seconds=0)) == 1
    assert ingest(writer, first, accepted_range(stream, 0, 5), no_proof, same_log).created == 5
    again = replace(attempt(writer, batch_id), replayed=5)
    assert ingest(writer, again, accepted_range(stream, 0, 5), no_proof, same_log).existing == 5
    positions.lock_group_commits(writer, trigger.id)
    assert positions.positions_of_batch(writer, batch_id) == {range_.partition: 5}
    assert [alert.cleared for alert in stalls.claim_alerts(writer, trigger, after_seconds=0)] == [True]
    schema.require_newest(url_of(stack, "workorders_writer"))


def test_the_writer_may_delete_nothing_of_the_ledger(writer: Connection) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        writer.execute("DELETE FROM workorders.kafka_ledger")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE workorders.kafka_decisions SET actor = 'another person'",
        "DELETE FROM workorders.kafka_decisions",
        "UPDATE workorders.sequence_decisions SET actor = 'another person'",
        "DELETE FROM workorders.sequence_decisions",
        "UPDATE workorders.operator_actions SET actor = 'another person'",
        "DELETE FROM workorders.operator_actions",
        "UPDATE workorders.bulk_jobs SET actor = 'another person'",
        "UPDATE workorders.bulk_jobs SET options = '{}'",
        "DELETE FROM workorders.bulk_jobs",
        "UPDATE workorders.alembic_version SET version_num = 'older'",
        "DELETE FROM workorders.alembic_version",
        "INSERT INTO workorders.alembic_version VALUES ('another')",
    ],
)
def test_the_writer_may_not_rewrite_who_decided_nor_the_version(writer: Connection, statement: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        writer.execute(statement.encode())


def test_the_writer_may_add_to_what_was_decided(writer: Connection, name: str) -> None:
    trigger = triggers.register(writer, name=name, type_="kafka", workflow="admit", definition={})
    writer.execute(
        """
        INSERT INTO workorders.kafka_decisions
            (actor, reason, trigger_id, topic, partition, kind, from_topic_id, from_offset, to_topic_id, to_offset)
        VALUES ('Ann', 'test', %s, %s, 0, 'seek', 'id', 1, 'id', 2)
        """,
        [trigger.id, name],
    )
    writer.execute(
        """
        INSERT INTO workorders.sequence_decisions
            (actor, reason, trigger_id, key, kind, from_number, to_number, released)
        VALUES ('Ann', 'test', %s, gen_random_uuid(), 'skip', 1, 2, 0)
        """,
        [trigger.id],
    )


def sent(connection: Connection) -> int:
    """Return how many messages wait for the topic to which functions of the tests publish."""
    found = connection.execute("SELECT count(*) FROM workorders.outbox_messages WHERE topic = 'results'").fetchone()
    return found[0] if found else 0


def test_the_writer_may_create_execute_publish_and_rerun(stack: LocalStack, granted: None, name: str) -> None:
    """As a worker of Airflow does it, whose connection is the writer's."""
    executing = Executing(url_of(stack, "workorders_writer"), name)
    with connect(executing.url) as connection:
        before = sent(connection)
    executing.create([{"do": "echo"}, {"do": "publish"}, {"do": "fail"}])
    executing.worker(enqueue=enqueue_published).work()
    assert executing.states() == [("success", "success"), ("success", "success"), ("failed", "failed")]
    with connect(executing.url) as connection:
        assert sent(connection) == before + 2
        job = jobs.create_job(connection, "rerun", Filter(trigger=name), Attribution("Ann", "test"))
        connection.commit()
        done = runner.run_job(connection, job.id)
    assert (done.state, done.looked_at) == ("finished", 3)


def test_the_writer_may_run_retention_and_join_ranges(
    stack: LocalStack, connection: Connection, trigger: Trigger, granted: None, name: str
) -> None:
    first, second = OffsetRange(partition_of(name), 0, 1), OffsetRange(partition_of(name), 1, 2)
    batch_id = plan(connection, trigger, first)
    finish(connection, batch_id, first)
    batches.add_ranges(connection, batch_id, trigger, [second])
    finish(connection, batch_id, second)
    connection.commit()
    with connect(url_of(stack, "workorders_writer")) as writer:
        batches.join_ranges(writer, batch_id)
        writer.commit()
        retention.delete_expired(writer)
    assert [range_.created for range_ in batches.load(connection, batch_id).ranges] == [2]


@pytest.mark.parametrize("table", ["work_orders", "dataclips", "runs", "run_results", "rejections", "outbox_messages"])
def test_the_writer_may_delete_what_retention_and_the_relay_delete(writer: Connection, table: str) -> None:
    writer.execute(f"DELETE FROM workorders.{table} WHERE false")


def test_the_reader_may_look_and_change_nothing(stack: LocalStack, granted: None) -> None:
    with connect(url_of(stack, "workorders_reader"), autocommit=True) as reader:
        assert isinstance(triggers.find_all(reader), list)
        assert isinstance(positions.status(reader), list)
        assert isinstance(list_decisions(reader), list)
        assert admin.shards(reader)
        for statement in (
            b"UPDATE workorders.kafka_ledger SET next_offset = next_offset",
            b"SELECT workorders.enqueue('topic', 'k', 'v')",
            b"SELECT checkpoint_key FROM workorders.outbox_secrets",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                reader.execute(statement)
