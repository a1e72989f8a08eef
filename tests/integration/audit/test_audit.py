"""An audit finds nothing on a healthy installation, and each deliberate corruption of a copy of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from local_stack.stack import LocalStack
from support.executing import Executing
from support.groups import commit
from support.in_process_trigger import InProcessTrigger, decided
from support.pages import browser_of, served, site
from support.runs import claim, finish_all, keeping
from support.topics import Topics
from support.work_orders import age
from workorders.audit import last_audit
from workorders.audit.audit import Audit
from workorders.audit.findings import AuditReport, Check
from workorders.cli.main import main  # noqa: F401 - the command is loaded as people load it
from workorders.core import schema, triggers
from workorders.core.maintenance import retention
from workorders.core.postgres.connection import connect
from workorders.kafka.client.admin import KafkaAdmin, run
from workorders.kafka.ledger import positions
from workorders.kafka.partitions import Partition
from workorders.kafka.recovery.decisions import DecisionKind
from workorders.kafka.recovery.resolution import DecisionRequest

pytestmark = pytest.mark.integration

OURS, OTHERS = [("type", b"order")], [("type", b"visit")]
SCHEMA = "workorders"


def bodies(count: int, start: int = 0) -> list[bytes]:
    return [b'{"n":%d,"price":1.50}' % number for number in range(start, start + count)]


@dataclass(frozen=True)
class Installation:
    """A database and the topics that it was filled from."""

    stack: LocalStack
    topics: Topics
    cluster: KafkaAdmin
    name: str
    """Of the database, and the beginning of the names of topics and triggers."""

    @property
    def url(self) -> str:
        return self.stack.database_url

    @property
    def orders(self) -> str:
        return f"{self.name}-orders"

    def trigger(self, name: str, **fields: Any) -> InProcessTrigger:
        return InProcessTrigger(self.stack, f"{self.name}-{name}", workflow=f"{self.name}-work", **fields)

    def ingest(self, trigger: InProcessTrigger) -> int:
        batch_id = trigger.batch()
        assert [outcome.error for outcome in trigger.ingest_messages(batch_id) if outcome.error] == []
        return batch_id

    def decide(self, kind: DecisionKind, trigger: str, offset: int | None = None) -> None:
        decided(self.stack, self.cluster, DecisionRequest(kind, trigger, trigger, (), offset))


@pytest.fixture(scope="module")
def healthy(stack: LocalStack, topics: Topics) -> Iterator[Installation]:
    """An installation in which much has happened, and all of it was right."""
    name = f"audit_{uuid4().hex[:12]}"
    stack.postgres.create_database(name)
    url = stack.postgres.url(name)
    schema.upgrade(url)
    own = cast("LocalStack", SimpleNamespace(database_url=url, kafka_settings=stack.kafka_settings))
    made = Installation(own, topics, KafkaAdmin({**stack.kafka_settings}), name)
    with connect(url) as connection:
        _ingest_orders(made)
        _ingest_with_losses(made)
        _ingest_again(made)
        _ingest_duplicates(made)
        _ingest_and_expire(made, connection)
        _execute(made, connection)
    yield made


def _ingest_orders(made: Installation) -> None:
    """Batches with accepted, rejected, and filtered messages, transactions, and virtual partitions."""
    made.topics.create(made.orders, 2)
    orders = made.trigger("orders", filter={"header:type": "order"})
    made.topics.produce(made.orders, bodies(10), headers=OURS, key=b"\xff", timestamp_ms=1_700_000_000_000)
    made.topics.produce(made.orders, [b"rubbish", None], headers=OURS)
    made.topics.produce(made.orders, bodies(3), headers=OTHERS)
    made.topics.produce_aborted(made.orders, bodies(4))
    made.topics.produce_committed(made.orders, bodies(2))
    made.topics.produce(made.orders, bodies(10), 1, headers=OURS)
    made.ingest(orders)
    made.topics.produce(made.orders, bodies(20, 50), headers=OURS)
    orders.definition = orders.definition.model_copy(update={"virtual_partitions": 3})
    made.ingest(orders)
    with connect(made.url) as connection:
        ledger = positions.positions(connection, made.orders)
    commit(made.cluster, orders.definition.group, {part: found.next_offset for part, found in ledger.items()})


def _ingest_with_losses(made: Installation) -> None:
    """A gap that an operator resolved, and a topic that was re-created and accepted."""
    for name in ("lost", "again"):
        made.topics.create(f"{made.name}-{name}")
        made.topics.produce(f"{made.name}-{name}", bodies(10))
        made.ingest(made.trigger(name))
    lost, again = made.trigger("lost"), made.trigger("again")
    topic = lost.definition.name
    made.topics.produce(topic, bodies(10))
    made.topics.delete_before(topic, 15)
    assert lost.prepare(lost.batch()).unreadable
    made.decide(DecisionKind.SKIP_LOST, topic)
    made.ingest(lost)
    topic = again.definition.name
    again.recreated(lambda: made.topics.delete(topic), lambda: made.topics.create(topic))
    made.topics.produce(topic, bodies(7, 90))
    assert again.prepare(again.batch()).unreadable
    made.decide(DecisionKind.ACCEPT_TOPIC, topic)
    made.ingest(again)


def _ingest_again(made: Installation) -> None:
    """A ledger that was set back while the filter was another one, and a batch that was replayed."""
    name = f"{made.name}-back"
    made.topics.create(name)
    made.topics.produce(name, bodies(5), headers=OURS)
    made.topics.produce(name, bodies(5), headers=OTHERS)
    back = made.trigger("back", filter={"header:type": "order"})
    batch_id = made.ingest(back)
    made.decide(DecisionKind.SEEK, name, 2)
    back.definition = back.definition.model_copy(update={"filter": None})
    made.ingest(back)
    back.ingest_messages(batch_id)
    made.topics.produce(name, bodies(6))
    made.decide(DecisionKind.SEEK, name, 13)
    made.ingest(back)


def _ingest_duplicates(made: Installation) -> None:
    """Messages that a rule rejects."""
    made.topics.create(f"{made.name}-twice")
    made.topics.produce(f"{made.name}-twice", [*bodies(5), *bodies(5)])
    made.ingest(made.trigger("twice", idempotency={"key": "body:/n", "window": "1 d"}))


def _ingest_and_expire(made: Installation, connection: psycopg.Connection[Any]) -> None:
    """A batch that retention deleted with its work orders, one whose inputs it erased, and a new one."""
    name = f"{made.name}-old"
    made.topics.create(name)
    old = InProcessTrigger(made.stack, name, workflow=name)
    keeping(connection, name, days=10, wipe_bodies_after_days=3)
    for days in (20, 5):
        made.topics.produce(name, bodies(5))
        made.ingest(old)
        finish_all(connection, name)
        found = triggers.find(connection, name)
        connection.execute("UPDATE workorders.triggers SET created_at = now() - interval '30 days' WHERE name = %s", [name])
        if days == 20:
            age(connection, found, days)
        connection.execute(
            "UPDATE workorders.kafka_batches SET planned_at = now() - make_interval(days => %s) "
            "WHERE trigger_id = %s AND planned_at > now() - interval '1 day'",
            [days, found.id],
        )
        connection.execute(
            "UPDATE workorders.kafka_ranges SET finished_at = now() - make_interval(days => %s) "
            "WHERE trigger_id = %s AND finished_at > now() - interval '1 day'",
            [days, found.id],
        )
        connection.execute(
            "UPDATE workorders.work_orders SET created_at = now() - make_interval(days => %s) "
            "WHERE trigger_id = %s AND created_at > now() - interval '1 day'",
            [days, found.id],
        )
        connection.commit()
        retention.delete_expired(connection, pause=lambda _: None)
    made.topics.produce(name, bodies(5))
    made.ingest(old)


def _execute(made: Installation, connection: psycopg.Connection[Any]) -> None:
    """Work orders that ended well and badly, one that is claimed, one that waits for a retry, and those that wait."""
    Executing(made.url, f"{made.name}-executed").create([{"do": "nothing"}] * 5)
    finish_all(connection, f"{made.name}-executed")
    Executing(made.url, f"{made.name}-failed").create([{"do": "nothing"}])
    finish_all(connection, f"{made.name}-failed", "failed")
    Executing(made.url, f"{made.name}-claimed").create([{"do": "nothing"}] * 2)
    claim(connection, f"{made.name}-claimed", 1)
    Executing(made.url, f"{made.name}-retried", retries={"max_retries": 3}).create([{"do": "nothing"}])
    finish_all(connection, f"{made.name}-retried", "failed")


@pytest.fixture
def copied(healthy: Installation, stack: LocalStack) -> Iterator[Installation]:
    """A copy of its database, to be corrupted."""
    name = f"copy_{uuid4().hex[:12]}"
    made, of, owner = sql.Identifier(name), sql.Identifier(healthy.name), sql.Identifier(healthy.name)
    with psycopg.connect(stack.postgres.url("postgres", role="postgres"), autocommit=True) as server:
        server.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {} OWNER {}").format(made, of, owner))
        url = stack.postgres.url(name, role=healthy.name)
        own = cast("LocalStack", SimpleNamespace(database_url=url, kafka_settings=stack.kafka_settings))
        yield Installation(own, healthy.topics, healthy.cluster, healthy.name)
        server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(made))


def audited(made: Installation, trigger: str | None = None, **options: Any) -> AuditReport:
    with connect(made.url) as connection:
        connection.read_only = True
        audit = Audit(connection, lambda _: made.stack.kafka_settings, lambda _: {}, **options)
        return audit.run(trigger, lambda *_: None)


def found(report: AuditReport) -> list[tuple[Check, str, str]]:
    return [(finding.check, finding.place, finding.what) for finding in report.findings]


def test_a_healthy_installation_has_no_findings(healthy: Installation) -> None:
    report = audited(healthy)
    assert (found(report), report.problems) == ([], ())
    assert (report.partitions, report.partitions_left) == (7, 0)
    assert (report.undecided, report.findings_left) == (0, 0)
    # 32 of orders 0 and 10 of orders 1, 5 of lost, 7 of again, 10 and 3 of back, 10 of twice, and 10 of old.
    assert report.messages == 87


CORRUPTIONS: dict[str, tuple[str, Check, str]] = {
    "a deleted row": (
        "DELETE FROM work_orders WHERE stream_id = %(stream)s AND position = 3",
        Check.COUNTS,
        "counted 12 work orders, and 11 are stored",
    ),
}


def test_all(copied: Installation) -> None:
    pass
