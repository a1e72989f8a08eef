"""A Kafka connection with which no client can start: every task, trigger and command reports it."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk import BaseOperator, BaseSensorOperator

from local_stack.stack import LocalStack
from support.command import Command
from support.definitions import define
from support.ingesting import partition_of, plan, row
from support.operators import subclasses
from support.outbox import new_outbox
from support.tries import a_try
from support.wrong_settings import WRONG, assert_reported, wrong_settings
from workorders.airflow.retries import unlimited_retries
from workorders.airflow.task_errors import TaskFailedError
from workorders.airflow.triggers.polling import FAILED
from workorders.core.exceptions import WorkOrdersError
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger
from workorders.kafka.airflow.commit_offsets import CommitOffsetsOperator
from workorders.kafka.airflow.create_work_orders import CreateWorkOrdersOperator
from workorders.kafka.airflow.outbox_relay import SendMessagesOperator
from workorders.kafka.airflow.plan_batch import PlanBatchOperator
from workorders.kafka.airflow.spark_submission import EngineOperator
from workorders.kafka.airflow.triggers import NewMessagesTrigger, WaitForMessagesSensor
from workorders.kafka.partitions import OffsetRange
from workorders.outbox import OutboxMessage

pytestmark = pytest.mark.integration

Make = Callable[[str, int], BaseOperator]
MADE: dict[type[BaseOperator], Make] = {
    PlanBatchOperator: lambda name, _: PlanBatchOperator(
        task_id="plan", definition=define(name), ingest_dag_id="orders_ingest", **unlimited_retries()
    ),
    CreateWorkOrdersOperator: lambda name, batch_id: CreateWorkOrdersOperator(
        task_id="create", definition=define(name), batch_id=batch_id, **unlimited_retries()
    ),
    CommitOffsetsOperator: lambda name, batch_id: CommitOffsetsOperator(
        task_id="commit", definition=define(name), batch_id=batch_id, **unlimited_retries()
    ),
}
ELSEWHERE = {SendMessagesOperator, EngineOperator}
"""The first has its own outbox, below; the other is the base of the operator that creates work orders."""


@pytest.fixture(params=WRONG)
def what(request: pytest.FixtureRequest, stack: LocalStack, monkeypatch: pytest.MonkeyPatch) -> str:
    """What is wrong with the Kafka connection; that of the database is right."""
    wrong: str = request.param
    extra = wrong_settings(wrong)
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": extra}))
    monkeypatch.setenv("AIRFLOW_CONN_WORKORDERS_DB", stack.database_url)
    return wrong


@pytest.fixture
def batch_id(connection: Connection, trigger: Trigger) -> int:
    return plan(connection, trigger, OffsetRange(partition_of(trigger.name), 0, 5))


def test_no_operator_that_needs_kafka_is_forgotten_here() -> None:
    ours = {kind for kind in subclasses(BaseOperator) if kind.__module__.startswith("workorders.kafka.")}
    assert {kind for kind in ours if not issubclass(kind, BaseSensorOperator)} == {*MADE, *ELSEWHERE}


@pytest.mark.parametrize("kind", MADE, ids=lambda kind: kind.__name__)
def test_the_task_fails_with_the_whole_sentence_and_commits_nothing(
    connection: Connection, trigger: Trigger, batch_id: int, what: str, *, kind: type[BaseOperator]
) -> None:
    with pytest.raises(WorkOrdersError) as raised:
        MADE[kind](trigger.name, batch_id).execute(a_try(2))
    sentence = str(raised.value)
    assert_reported(sentence, what)
    assert sentence.startswith(f"Trigger {trigger.name}")
    assert any(text in sentence for text in ("was committed", "not committed"))
    assert sentence.endswith(" Next try in 2 s.")
    entry = row(connection, trigger)
    assert (entry.next_offset, entry.batch_id) == (0, batch_id)
    if kind is CreateWorkOrdersOperator:
        assert entry.status == "stalled"
        assert_reported(str(entry.last_error), what)


def test_the_wait_ends_in_the_triggerer_and_the_task_fails_on_a_worker(stack: LocalStack, what: str) -> None:
    sensor = WaitForMessagesSensor(task_id="wait", definition=define("orders"), **unlimited_retries())
    assert sensor.start_trigger_args is not None
    arguments = sensor.start_trigger_args.trigger_kwargs or {}

    async def first() -> Any:
        return await anext(NewMessagesTrigger(**arguments).run())

    event = asyncio.run(first())
    assert FAILED in event.payload
    with pytest.raises(TaskFailedError) as raised:
        sensor.execute_complete(a_try(2), event.payload)
    sentence = str(raised.value)
    assert_reported(sentence, what)
    assert sentence.startswith("Trigger orders: ")
    assert sentence.endswith("Nothing was changed. Next try in 2 s.")


def test_the_relay_fails_with_the_whole_sentence_and_its_messages_wait(
    stack: LocalStack, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox = new_outbox(stack)
    outbox.write(OutboxMessage(topic="answers", value=b"{}"))
    monkeypatch.setenv("AIRFLOW_CONN_WORKORDERS_DB", outbox.database_url)
    task = SendMessagesOperator(task_id="send_messages", definition=outbox.definition, shard=0, **unlimited_retries())
    with pytest.raises(WorkOrdersError) as raised:
        task.execute(a_try(2))
    sentence = str(raised.value)
    assert_reported(sentence, what)
    assert sentence.startswith("Outbox, shard 0: ")
    assert sentence.endswith("Messages that were not sent wait in their table; nothing is lost. Next try in 2 s.")
    assert outbox.waiting() == 1


def test_the_command_line_reports_it_too(
    stack: LocalStack,
    trigger: Trigger,
    batch_id: int,
    what: str,
    *,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("WORKORDERS_DATABASE_URL", stack.database_url)
    monkeypatch.setenv("WORKORDERS_KAFKA", json.dumps(wrong_settings(what)))
    workorders = Command(monkeypatch, capsys)
    shown = workorders("status", trigger.name, "--json")
    assert_reported(shown.json()[0]["problem"], what)
    ended = workorders("resolve", "skip-lost", trigger.name, trigger.name, "--reason", "x", "--yes")
    assert ended.code == 1
    assert_reported(ended.err, what)
    assert ended.err.endswith("Nothing was changed.\n")
