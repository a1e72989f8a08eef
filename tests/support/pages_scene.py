"""What the pages show in tests and pictures: triggers, a stall, and work orders in every state."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from local_stack.stack import LocalStack
from support.executing import Executing
from support.in_process_trigger import InProcessTrigger
from support.ingesting import look
from support.topics import Topics
from support.work_orders import rejected
from workorders.core import triggers
from workorders.core.creation.work_orders import create_for
from workorders.core.history import work_orders
from workorders.core.items import Item
from workorders.core.postgres.connection import Connection, connect
from workorders.kafka.ledger import positions as ledger


@dataclass(frozen=True)
class Scene:
    """What was made, all with one prefix in their names."""

    stalled: InProcessTrigger
    """A trigger with three partitions, of which retention deleted unread messages of the first."""
    topic: str
    workflow: str


def make_scene(stack: LocalStack, prefix: str) -> Scene:
    """Make everything that the pages show."""
    topics = Topics(stack.kafka_settings)
    workflow = f"{prefix}register"
    executing = Executing(stack.database_url, workflow, concurrency=8)
    visits = _ingested(stack, topics, f"{prefix}visits", workflow, [40, 12])
    stalled = _ingested(stack, topics, f"{prefix}orders", workflow, [120, 80, 60])
    for partition, count in enumerate((30, 20, 5)):
        topics.produce(stalled.definition.topics[0], _bodies(count), partition)
    topics.delete_before(stalled.definition.topics[0], 135)
    planned = stalled.plan()
    assert planned.batch_id is not None
    stalled.attempt(planned.batch_id)
    topics.produce(stalled.definition.topics[0], _bodies(17), 1)
    with connect(stack.database_url) as connection:
        webhook = triggers.register(
            connection, name=f"{prefix}admissions", type_="webhook", workflow=workflow, definition={}
        )
        create_for(connection, webhook, [rejected(None, None, b"\xff\x00 not JSON <script>alert(1)</script>")])
        create_for(connection, webhook, [Item(None, None, b'{"headers":{"x":"1"}}', hostile_body())])
        connection.execute(
            """
            UPDATE workorders.dataclips
            SET body = '{"do": "fail", "word": "no bed is free"}'
            WHERE id IN (
                SELECT id FROM workorders.work_orders
                WHERE state = 'pending' AND workflow_id = %s ORDER BY id LIMIT 12
            )
            """,
            [executing.workflow.id],
        )
    with connect(stack.database_url) as connection:
        for trigger in (stalled, visits):
            known = ledger.positions(connection, trigger.definition.name)
            ends = {part: position.next_offset for part, position in known.items()}
            look(connection, trigger.definition.name, ends)
    executing.worker().work()
    with connect(stack.database_url) as connection:
        work_orders.refresh_counts(connection, even_if_recent=True)
    return Scene(stalled, stalled.definition.topics[0], workflow)


def failed_run(connection: Connection, workflow: str) -> tuple[UUID, UUID]:
    """Return the oldest work order of a workflow that has failed, and its run."""
    row = connection.execute(
        """
        SELECT work_orders.id, runs.id
        FROM workorders.work_orders
        JOIN workorders.workflows ON workflows.id = work_orders.workflow_id
        JOIN workorders.runs ON runs.work_order_id = work_orders.id
        WHERE workflows.name = %s AND work_orders.state = 'failed'
        ORDER BY work_orders.id LIMIT 1
        """,
        [workflow],
    ).fetchone()
    assert row is not None
    return row[0], row[1]


def first_batch(connection: Connection, topic: str) -> int:
    """Return the number of the first batch with messages of a topic."""
    row = connection.execute("SELECT min(batch_id) FROM workorders.kafka_ranges WHERE topic = %s", [topic]).fetchone()
    assert row is not None
    return int(row[0])


def stall_shard(connection: Connection, error: str | None = "a test [WO-OUTBOX-CONTRADICTION]") -> None:
    """Let shard 0 of the outbox wait for a decision, or end that if the error is None."""
    connection.execute("UPDATE workorders.outbox_shards SET last_error = %s WHERE shard = 0", [error])


def hold_key(connection: Connection, topic: str, key: str = "k") -> int:
    """Hold a key of the outbox, without a message; return the number of the hold."""
    row = connection.execute(
        "INSERT INTO workorders.outbox_holds (kind, topic, bucket, key, reason) "
        "VALUES ('key', %s, 0, %s, 'too large') RETURNING id",
        [topic, key.encode()],
    ).fetchone()
    assert row is not None
    return int(row[0])


def cancel_job(connection: Connection, workflow: str, *, state: str, total: int, error: str | None = None) -> int:
    """Record an ended job that was to cancel work orders of a workflow; return its number."""
    row = connection.execute(
        "INSERT INTO workorders.bulk_jobs (kind, filter, options, actor, reason, state, total, error) "
        "VALUES ('cancel', jsonb_build_object('workflow', %s::text), '{}', 'ada', 'a test', %s, %s, %s) RETURNING id",
        [workflow, state, total, error],
    ).fetchone()
    assert row is not None
    return int(row[0])


def _ingested(stack: LocalStack, topics: Topics, name: str, workflow: str, counts: Sequence[int]) -> InProcessTrigger:
    """Return a trigger that has ingested some messages of each partition."""
    topics.create(name, len(counts))
    for partition, count in enumerate(counts):
        topics.produce(name, _bodies(count), partition)
    trigger = InProcessTrigger(stack, name, workflow=workflow)
    while (planned := trigger.plan()).batch_id is not None:
        trigger.ingest_messages(planned.batch_id)
    return trigger


def _bodies(count: int) -> list[bytes]:
    return [json.dumps({"do": "echo", "patient": f"PAT-{number:06}"}).encode() for number in range(count)]


def hostile_body() -> bytes:
    """Return an input that is made to break pages."""
    return json.dumps(
        {
            "patient": "PAT-000123",
            "html": "<script>alert(1)</script><img src=x onerror=alert(2)>",
            "attribute": '" onmouseover="alert(3)',
            "template": "{{7*7}} ${7*7} {% raw %}",
            "link": "javascript:alert(4)",
            "bidi": "abc\u202edef",
            "number": 12345678901234567890123,
            "nested": {"a": [1, 2, {"b": None, "c": True}], "long": "x" * 5000},
        }
    ).encode()
