"""An audit finds nothing on a healthy installation, and each deliberate corruption of a copy of it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from local_stack.stack import LocalStack
from support.command import Command
from support.databases import own_database
from support.executing import Executing
from support.groups import commit
from support.in_process_trigger import InProcessTrigger, decided
from support.pages import browser_of, served, site
from support.runs import claim, finish_all, keeping
from support.topics import Topics
from support.work_orders import age
from workorders.audit import stored
from workorders.audit.audit import Audit
from workorders.audit.findings import AuditReport, Check
from workorders.audit.messages import Block
from workorders.audit.rereading import Rereading
from workorders.audit.stored import read_report
from workorders.core import triggers
from workorders.core.maintenance import retention
from workorders.core.postgres.connection import connect
from workorders.kafka.client.admin import KafkaAdmin
from workorders.kafka.client.settings import client_settings
from workorders.kafka.ledger import positions
from workorders.kafka.partitions import Partition
from workorders.kafka.recovery.decisions import DecisionKind
from workorders.kafka.recovery.resolution import DecisionRequest

pytestmark = pytest.mark.integration

OURS, OTHERS = [("type", b"order")], [("type", b"visit")]


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
        decided(self.stack, self.cluster, DecisionRequest(kind, trigger, trigger, (0,), offset))


@pytest.fixture(scope="module")
def healthy(stack: LocalStack, topics: Topics) -> Installation:
    """An installation in which much has happened, and all of it was right."""
    url = own_database(stack, "audit")
    name = urlsplit(url).path.removeprefix("/")
    own = cast("LocalStack", SimpleNamespace(database_url=url, kafka_settings=stack.kafka_settings))
    made = Installation(own, topics, KafkaAdmin(client_settings(stack.kafka_settings)), name)
    with connect(url) as connection:
        _ingest_orders(made)
        _ingest_with_losses(made)
        _ingest_again(made)
        _ingest_duplicates(made)
        _ingest_and_expire(made, connection)
        _execute(made, connection)
    return made


def _ingest_orders(made: Installation) -> None:
    """Batches with accepted, rejected, and filtered messages, transactions, and virtual partitions."""
    made.topics.create(made.orders, 2)
    orders = made.trigger("orders", filter={"header:type": "order"}, virtual_partitions=3)
    made.topics.produce(made.orders, bodies(10), headers=OURS, key=b"\xff", timestamp_ms=1_700_000_000_000)
    made.topics.produce(made.orders, [b"rubbish", None], headers=OURS)
    made.topics.produce(made.orders, bodies(3), headers=OTHERS)
    made.topics.produce_aborted(made.orders, bodies(4))
    made.topics.produce_committed(made.orders, bodies(2))
    made.topics.produce(made.orders, bodies(10), 1, headers=OURS)
    made.ingest(orders)
    made.topics.produce(made.orders, bodies(20, 50), headers=OURS)
    made.ingest(orders)
    with connect(made.url) as connection:
        ledger = positions.positions(connection, made.orders)
    commit(made.cluster, orders.definition.consumer_group, {part: found.next_offset for part, found in ledger.items()})


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
    made.topics.produce(f"{made.name}-twice", [*bodies(5), *bodies(5)], headers=OURS)
    made.ingest(made.trigger("twice", idempotency={"key": "body:/n", "window": "1d"}))


def _ingest_and_expire(made: Installation, connection: psycopg.Connection[Any]) -> None:
    """A batch that retention deleted with its work orders, one whose inputs it erased, and a new one."""
    name = f"{made.name}-old"
    made.topics.create(name)
    old = InProcessTrigger(made.stack, name, workflow=name)
    keeping(connection, name, delete_after="10d", erase_after="3d")
    for days in (20, 5):
        made.topics.produce(name, bodies(5))
        made.ingest(old)
        finish_all(connection, name)
        found = triggers.find(connection, name)
        age(connection, found, days)
        ago = {"ago": timedelta(days=days), "id": found.id}
        for table, column in {"batches": "planned_at", "ranges": "finished_at"}.items():
            connection.execute(
                f"UPDATE workorders.kafka_{table} SET {column} = now() - %(ago)s "
                f"WHERE trigger_id = %(id)s AND {column} > now() - interval '1 day'".encode(),
                ago,
            )
        connection.execute(
            "UPDATE workorders.triggers SET created_at = now() - 3 * %(ago)s, updated_at = now() - 3 * %(ago)s "
            "WHERE id = %(id)s",
            ago,
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
def workorders(stack: LocalStack, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command line, in an environment that knows Kafka."""
    monkeypatch.setenv("WORKORDERS_KAFKA", json.dumps(stack.kafka_settings))
    return Command(monkeypatch, capsys)


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


# Of orders 0: offsets 0 to 9 are inputs, 10 and 11 are rejected, 12 to 14 filtered, 15 to 18 aborted, 20 and 21
# committed and filtered, and 23 to 42 inputs of the second batch.
AT = "stream_id = (SELECT stream_id FROM kafka_ledger WHERE topic = %(orders)s AND partition = 0) AND position ="
ID_AT = f"(SELECT id FROM work_orders WHERE {AT}"
OF_ORDERS = "topic = %(orders)s AND partition = 0"
COPY_OF_3 = f"""
INSERT INTO work_orders (id, position, trigger_id, workflow_id, stream_id, state)
SELECT gen_random_uuid(), %(position)s, trigger_id, workflow_id, stream_id, state FROM work_orders WHERE {AT} 3
"""
CORRUPTIONS: dict[str, tuple[str, Check, str]] = {
    "a deleted work order": (f"DELETE FROM work_orders WHERE {AT} 3", Check.COUNTS, "counted 12 work orders, and 11"),
    "a message without a work order": (f"DELETE FROM work_orders WHERE {AT} 3", Check.MESSAGES, "it has no work order"),
    "an input without a work order": (f"DELETE FROM work_orders WHERE {AT} 3", Check.PARTS, "Input "),
    "a rejection without a work order": (f"DELETE FROM work_orders WHERE {AT} 10", Check.PARTS, "Rejection "),
    "a work order without an input": (f"DELETE FROM dataclips WHERE id = {ID_AT} 1)", Check.PARTS, "does not match"),
    "a work order of an aborted message": (
        COPY_OF_3.replace("%(position)s", "16"),
        Check.MESSAGES,
        "Kafka has no committed message at its offset",
    ),
    "more work orders than messages": (
        COPY_OF_3.replace("%(position)s", "16"),
        Check.COUNTS,
        "counted 12 work orders, and 13",
    ),
    "two work orders of one message": (
        "ALTER TABLE work_orders DROP CONSTRAINT work_orders_stream_id_position_key;"
        + COPY_OF_3.replace("%(position)s", "3"),
        Check.COUNTS,
        "1 offsets have two work orders",
    ),
    "a changed input": (
        f"""UPDATE dataclips SET body = '{{"n": 1, "price": 1.5}}' WHERE id = {ID_AT} 1)""",
        Check.MESSAGES,
        "has another content than its message",
    ),
    "a changed header": (
        f"""UPDATE dataclips SET request = jsonb_set(request, '{{headers,0,1}}', '"x"') WHERE id = {ID_AT} 1)""",
        Check.MESSAGES,
        "has another key, other headers, or another timestamp",
    ),
    "a changed raw value": (
        f"UPDATE rejections SET raw = 'other' WHERE work_order_id = {ID_AT} 10)",
        Check.MESSAGES,
        "has another content than its message",
    ),
    "a ledger that was moved forward": (
        f"UPDATE kafka_ledger SET next_offset = 60, stored_end = 60 WHERE {OF_ORDERS}",
        Check.RANGES,
        "no batch has finished and no decision has skipped",
    ),
    "a ledger past the end of the log": (
        f"UPDATE kafka_ledger SET next_offset = 60, stored_end = 60 WHERE {OF_ORDERS}",
        Check.LOG,
        "log truncated",
    ),
    "a ledger that was moved back": (
        f"UPDATE kafka_ledger SET next_offset = 23 WHERE {OF_ORDERS}",
        Check.LEDGER,
        "and no decision set it back",
    ),
    "a generation that no decision began": (
        f"UPDATE kafka_ledger SET generation = 77 WHERE {OF_ORDERS}",
        Check.LEDGER,
        "which no decision began",
    ),
    "a stream of another log": (
        f"UPDATE kafka_ledger SET topic_id = 'other' WHERE {OF_ORDERS}",
        Check.LEDGER,
        "and stores into",
    ),
    "a range of a wrong generation": (
        f"UPDATE kafka_ranges SET generation = 77 WHERE {OF_ORDERS} AND start_offset = 0",
        Check.RANGES,
        "no batch has",
    ),
    "a hole in the ranges": (
        f"DELETE FROM kafka_ranges WHERE {OF_ORDERS} AND start_offset = 0",
        Check.RANGES,
        "no batch has finished",
    ),
    "a range that is finished twice": (
        f"""
        INSERT INTO kafka_ranges (batch_id, topic, partition, trigger_id, topic_id, start_offset, end_offset,
            finished_at, created, rejected, existing)
        SELECT (SELECT max(batch_id) FROM kafka_ranges WHERE {OF_ORDERS}), topic, partition, trigger_id, topic_id, 0, 5,
            now(), 0, 0, 5
        FROM kafka_ranges WHERE {OF_ORDERS} AND start_offset = 0
        """,
        Check.RANGES,
        "that another batch has finished before",
    ),
    "an unfinished range away from the ledger": (
        f"""
        INSERT INTO kafka_ranges (batch_id, topic, partition, trigger_id, topic_id, start_offset, end_offset)
        SELECT max(batch_id), topic, partition, trigger_id, topic_id, 90, 95
        FROM kafka_ranges WHERE {OF_ORDERS} GROUP BY topic, partition, trigger_id, topic_id
        """,
        Check.LEDGER,
        "not in the unfinished range",
    ),
    "a range that counted one more": (
        f"UPDATE kafka_ranges SET created = created + 1 WHERE {OF_ORDERS} AND start_offset = 0",
        Check.COUNTS,
        "counted 13 work orders, and 12",
    ),
    "a ledger that counted one less": (
        f"UPDATE kafka_ledger SET filtered = filtered - 1 WHERE {OF_ORDERS}",
        Check.COUNTS,
        "The ledger counts",
    ),
    "a work order past the ledger": (
        f"UPDATE work_orders SET position = 70 WHERE {AT} 42",
        Check.LEDGER,
        "is stored after offset 43",
    ),
    "a run that nobody owns": ("DELETE FROM workers", Check.RUNS, "its worker has no row"),
    "a claimed run of a waiting work order": (
        "UPDATE work_orders SET state = 'requeued' WHERE state = 'running'",
        Check.RUNS,
        "its work order is requeued",
    ),
    "a work order that waits for no run": (
        "DELETE FROM runs WHERE state = 'available'",
        Check.RUNS,
        "no unfinished run",
    ),
    "an end without a run": ("DELETE FROM runs WHERE state = 'failed'", Check.PARTS, "and its last run is missing"),
    "a sequence that counted otherwise": (
        "INSERT INTO sequences (trigger_id, key, name, parked) SELECT min(id), gen_random_uuid(), 'x', 1 FROM triggers",
        Check.RUNS,
        "counts 1 parked work orders of 0",
    ),
}


@pytest.mark.parametrize("corruption", CORRUPTIONS)
def test_each_corruption_is_found(copied: Installation, corruption: str) -> None:
    statements, check, what = CORRUPTIONS[corruption]
    with psycopg.connect(copied.url, options="-c search_path=workorders", autocommit=True) as connection:
        for statement in statements.split(";"):
            assert connection.execute(statement.encode(), {"orders": copied.orders}).rowcount != 0
    report = audited(copied, None if check in {Check.RUNS, Check.PARTS} else copied.orders)
    assert report.problems == ()
    assert [finding for finding in report.findings if finding.check is check and what in finding.what], found(report)


def test_a_group_past_the_ledger_is_found(healthy: Installation) -> None:
    (part,) = (part for part in _positions(healthy, healthy.orders) if part.partition == 0)
    group = f"workorders-{healthy.orders}"
    commit(healthy.cluster, group, {part: 44})
    try:
        report = audited(healthy, healthy.orders)
    finally:
        commit(healthy.cluster, group, {part: 43})
    assert found(report) == [
        (
            Check.GROUP,
            f"{healthy.orders}: {healthy.orders} 0 [43, 44)",
            f"The consumer group {group} is at 44, and the ledger at 43.",
        )
    ]


def test_a_topic_that_was_recreated_and_not_accepted_is_found(healthy: Installation) -> None:
    name = f"{healthy.name}-gone"
    healthy.topics.create(name)
    healthy.topics.produce(name, bodies(5))
    trigger = healthy.trigger("gone")
    healthy.ingest(trigger)
    trigger.recreated(lambda: healthy.topics.delete(name), lambda: healthy.topics.create(name))
    (finding,) = found(audited(healthy, name))
    assert finding[::2] == (Check.LOG, "The ledger and Kafka contradict each other: topic re-created.")
    healthy.decide(DecisionKind.ACCEPT_TOPIC, name)
    assert found(audited(healthy, name)) == []


def test_a_message_that_was_stored_by_an_older_definition_is_undecided(copied: Installation) -> None:
    name = f"{copied.name}-twice"
    with connect(copied.url) as connection:
        connection.execute(
            """
            UPDATE workorders.triggers SET definition = definition || '{"headers": "none"}', updated_at = now()
            WHERE name = %s
            """,
            [name],
        )
    report = audited(copied, name)
    assert (found(report), report.undecided, report.is_good) == ([], 10, True)


def test_partitions_are_left_when_the_time_is_over(healthy: Installation) -> None:
    report = audited(healthy, max_seconds=0)
    assert (report.partitions, report.partitions_left >= 7, report.is_good) == (0, True, True)


def test_a_sample_reads_no_more_than_it_may(healthy: Installation) -> None:
    assert audited(healthy, healthy.orders, sample=0).messages == 0


def test_messages_that_kafka_has_deleted_meanwhile_are_not_compared(healthy: Installation) -> None:
    name = f"{healthy.name}-lost"
    with connect(healthy.url) as connection:
        reading = Rereading(connection, name, lambda _: healthy.stack.kafka_settings, lambda _: {})
        with stored.snapshot(connection):
            ledger = stored.ledger(connection, {"trigger": name, "topic": name, "partition": 0})
        assert ledger is not None
        assert (list(reading.check(ledger, Block(0, 10))), reading.messages) == ([], 0)


def test_a_kafka_that_does_not_answer_is_a_problem_and_the_rest_is_checked(copied: Installation) -> None:
    with connect(copied.url) as connection:
        connection.execute("DELETE FROM workorders.kafka_ranges WHERE topic = %s AND start_offset = 0", [copied.orders])
    copied.stack.kafka_settings["bootstrap.servers"] = "127.0.0.1:1"
    report = audited(copied, copied.orders)
    assert [finding.check for finding in report.findings].count(Check.RANGES) == 2
    assert ["did not answer" in problem for problem in report.problems] == [True]


def _positions(made: Installation, trigger: str) -> list[Partition]:
    with connect(made.url) as connection:
        return list(positions.positions(connection, trigger))


def test_the_command_prints_and_stores_the_report_and_the_page_shows_it(
    copied: Installation, workorders: Command
) -> None:
    good = workorders("audit", "--database", copied.url)
    assert good.code == 0, good.err
    assert good.out.endswith("Nothing is wrong.\n")
    with browser_of(served(site(copied.url, copied.stack.kafka_settings))) as browser:
        assert "Nothing is wrong." in browser.get("/workorders/audit").text
        with connect(copied.url) as connection:
            connection.execute("DELETE FROM workorders.workers")
        bad = workorders("audit", "--database", copied.url)
        assert bad.code == 1
        assert "its worker has no row in the table workers." in bad.out
        page = browser.get("/workorders/audit").text
        assert "its worker has no row in the table workers." in page
    with connect(copied.url) as connection:
        kept = read_report(connection)
        connection.execute("DELETE FROM workorders.last_audit")
    assert kept is not None
    assert [finding.check for finding in kept.findings] == [Check.RUNS]
    answer = workorders("audit", copied.orders, "--database", copied.url, "--json")
    assert answer.json()["trigger"] == copied.orders
    assert workorders("audit", "no-such-trigger", "--database", copied.url).code == 1
