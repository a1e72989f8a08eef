"""Events of a real topic in both modes, and a key of several selectors that knows one event in both."""

import pytest

from local_stack.stack import LocalStack
from support.in_process_trigger import InProcessTrigger
from support.topics import Topics
from workorders.core import workflows
from workorders.core.creation.work_orders import Created
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.postgres.connection import Connection

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("whole_work_orders")]

STRUCTURED = b'{"specversion":"1.0","id":"1","source":"/shop","type":"t","data":{"n":1}}'
BINARY = [("ce_specversion", b"1.0"), ("ce_id", b"1"), ("ce_source", b"/shop"), ("ce_type", b"t")]


def test_an_event_that_is_sent_in_both_modes_is_one_event(
    connection: Connection, stack: LocalStack, topics: Topics, name: str
) -> None:
    source_and_id = ["body:/source", "body:/id"]
    ordered = WorkflowDefinition.model_validate(
        {"name": name, "callable": "clinic.admissions:admit", "ordering_key": source_and_id}
    )
    workflows.register(connection, ordered)
    connection.commit()
    topics.create(name)
    topics.produce(name, [STRUCTURED], headers=[("content-type", b"application/cloudevents+json")])
    topics.produce(name, [b'{"n":1}'], headers=BINARY)
    topics.produce(name, [b'{"n":1}'], headers=[*BINARY[:1], ("ce_id", b"2"), *BINARY[2:]])
    topics.produce(name, [b'{"n":1}'])
    rule = {"key": source_and_id, "window": "1h"}
    trigger = InProcessTrigger(stack, name, workflow=name, format="cloudevents", idempotency=rule)
    (outcome,) = trigger.ingest_messages(trigger.batch())
    assert (outcome.error, outcome.created) == (None, Created(2, 2, rejected_by_rule=1))
    rows = connection.execute(
        """
        SELECT body ->> 'id', body -> 'data', ordering_key
        FROM workorders.work_orders JOIN workorders.dataclips USING (id)
        JOIN workorders.triggers ON triggers.id = work_orders.trigger_id
        WHERE triggers.name = %s ORDER BY position
        """,
        (name,),
    ).fetchall()
    assert [row[:2] for row in rows] == [("1", {"n": 1}), ("2", {"n": 1})]
    assert len({row[2] for row in rows} - {None}) == 2
