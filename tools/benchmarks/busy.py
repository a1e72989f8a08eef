"""A busy installation: very many work orders of a month, and the work around them, made in the server.

Of `many`'s work orders, the newest wait, run, are parked, or have failed. Kafka triggers have partitions, batches,
decisions, and a day of looks at Kafka; two of them are stalled. Messages wait in the outbox, and some are held.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from benchmarks import many, messages
from local_stack.stack import LocalStack
from workorders.core import triggers, workflows
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.history import search_index, work_orders
from workorders.core.history.filters import Filter
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.core.triggers import Trigger
from workorders.kafka.client.admin import KafkaAdmin, run
from workorders.kafka.client.settings import client_settings
from workorders.kafka.ledger.positions import stream_name
from workorders.kafka.partitions import Partition

_QUERIES: Final = load_queries("benchmarks", "busy.sql")

TRIGGERS: Final = 12
"""Kafka triggers; each two of them share a workflow."""
_OTHERS: Final = {"admissions": "webhook", "transfers": "webhook", "nightly": "cron"}
"""Further triggers of the first workflow, without work orders."""
PARTITIONS: Final = 8
"""Of each of their topics."""
_MESSAGES: Final = 200
"""Messages of each partition, on the broker."""
_TABLES: Final = (
    *("work_orders", "runs", "run_results", "dataclips", "sequences", "parked_work_orders"),
    *("kafka_ledger", "kafka_lag_samples", "kafka_batches", "kafka_ranges", "kafka_decisions"),
    *("outbox_messages", "bulk_jobs"),
)
_EMPTY: Final = """
TRUNCATE workorders.kafka_ledger, workorders.kafka_lag_samples, workorders.kafka_batches, workorders.kafka_ranges,
    workorders.kafka_decisions, workorders.outbox_messages, workorders.outbox_holds, workorders.outbox_counters,
    workorders.sequences CASCADE
"""


@dataclass(frozen=True, slots=True)
class Installation:
    """The names and ids of an installation that its pages show."""

    triggers: Sequence[str]
    """Kafka triggers, that of the most work orders first."""
    workflows: Sequence[str]
    large: UUID
    """A work order whose input has megabytes."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How much an installation contains."""

    rows: int
    """Work orders."""
    outbox: int
    """Messages that wait in the outbox."""
    batches: int
    """Batches of each Kafka trigger in the last six hours."""
    entries: int
    """Of the large input, 280 bytes each."""


def fill(stack: LocalStack, connection: Connection, extent: Extent, say: many.Say) -> Installation:
    """Make everything; the connection commits by itself."""
    many.empty(connection)
    owners = [_register(connection, place) for place in range(TRIGGERS)]
    for name, type_ in _OTHERS.items():
        triggers.register(connection, name=name, type_=type_, workflow=many.COMMON, definition={})
    given = many.fill(connection, extent.rows, say, common=owners)
    while search_index.index_new(connection):
        pass
    say("the current work")
    connection.execute(_EMPTY)
    for part in ("wait", "park", "work"):
        connection.execute(_QUERIES[part], given)
    connection.execute(_QUERIES["fail"], {**given, "failing_id": owners[1].id})
    for part in ("retry", "results"):
        connection.execute(_QUERIES[part], given)
    large = _enlarge(connection, extent.entries)
    _read(stack, connection, owners, extent)
    connection.execute(_QUERIES["outbox_messages"], {"messages": extent.outbox})
    for part in ("outbox_holds", "outbox_counters", "outbox_shards"):
        connection.execute(_QUERIES[part])
    connection.execute(_QUERIES["jobs"], {"workflow": owners[1].workflow})
    work_orders.refresh_counts(connection, even_if_recent=True)
    for table in _TABLES:
        say(f"vacuum of {table}")
        connection.execute(f"VACUUM (ANALYZE) workorders.{table}".encode())
    return Installation(
        [owner.name for owner in owners], list(dict.fromkeys(owner.workflow for owner in owners)), large
    )


def _register(connection: Connection, place: int) -> Trigger:
    # The first is the one that searches and reruns name.
    number, name = place // 2, f"{many.COMMON}-{place}" if place else many.COMMON
    workflow = f"{many.COMMON}-{number}" if number else many.COMMON
    fields: dict[str, Any] = {"name": workflow, "callable": "wards:register", "concurrency": 50}
    if number % 2 == 0:
        fields |= {"limits": {"max_waiting": 1_000_000, "max_per_day": 5_000_000}, "retention": {"delete_after": "60d"}}
    workflows.register(connection, WorkflowDefinition.model_validate(fields))
    definition = {"topics": [many.topic_of(place)], "consumer_group": f"workorders-{name}"}
    return triggers.register(connection, name=name, type_="kafka", workflow=workflow, definition=definition)


def _enlarge(connection: Connection, entries: int) -> UUID:
    found = work_orders.list_work_orders(connection, Filter(state="success"), limit=1)[0].id
    connection.execute(_QUERIES["enlarge"], {"id": found, "entries": entries})
    return found


def _read(stack: LocalStack, connection: Connection, owners: Sequence[Trigger], extent: Extent) -> None:
    """Let the triggers have read real topics."""
    topics = [many.topic_of(place) for place in range(len(owners))]
    messages.create_topics(stack.bootstrap_servers, topics, PARTITIONS)
    for topic in topics:
        messages.produce(stack.bootstrap_servers, topic, PARTITIONS, PARTITIONS * _MESSAGES)
    owner_of = dict(zip(topics, owners, strict=True))
    parts = run(_partitions(stack, topics))
    connection.execute(
        _QUERIES["ledger"],
        {
            "messages": _MESSAGES,
            "stalled_topics": topics[:2],
            "trigger_ids": [owner_of[part.topic].id for part in parts],
            "topics": [part.topic for part in parts],
            "partitions": [part.partition for part in parts],
            "topic_ids": [part.topic_id for part in parts],
            "stream_ids": [triggers.stream_id(connection, owner_of[part.topic], stream_name(part)) for part in parts],
        },
    )
    connection.execute(_QUERIES["samples"])
    counts = {"recent_batches": extent.batches, "older_batches": extent.batches // 2}
    connection.execute(_QUERIES["batches"], counts)
    for part in ("ranges", "decisions"):
        connection.execute(_QUERIES[part])


async def _partitions(stack: LocalStack, topics: Sequence[str]) -> list[Partition]:
    return (await KafkaAdmin(client_settings(stack.kafka_settings)).partitions(topics)).require()
