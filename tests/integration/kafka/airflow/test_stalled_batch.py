"""The wait of a stalled batch, against a real broker and a real ledger, in one event loop as in the triggerer."""

import asyncio
import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from airflow.triggers.base import TriggerEvent
from psycopg.conninfo import conninfo_to_dict

from local_stack.ports import free_port
from local_stack.stack import LocalStack
from support.admission import limit
from support.in_process_trigger import TEN, InProcessTrigger, decided
from support.ingesting import everything
from support.topics import Topics
from workorders.core import triggers
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger
from workorders.kafka.airflow import stalled_batch
from workorders.kafka.airflow.stalled_batch import StalledBatchTrigger
from workorders.kafka.client.admin import KafkaAdmin
from workorders.kafka.recovery.decisions import DecisionKind
from workorders.kafka.recovery.resolution import DecisionRequest

pytestmark = pytest.mark.integration

SECONDS = 60.0
HOUR = 3600.0
ENDED = "What refused the batch has ended; a worker makes the next try now."
LOST = "were deleted by retention before they were read"


@pytest.fixture(autouse=True)
def quick(stack: LocalStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's connections, and looks and tries that follow one another quickly."""
    connect_kafka(monkeypatch, dict(stack.kafka_settings))
    monkeypatch.setenv("AIRFLOW_CONN_WORKORDERS_DB", stack.database_url)
    monkeypatch.setattr(stalled_batch, "LOOK_SECONDS", 0.1)


def connect_kafka(monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": settings}))


class Wait:
    """The wait of one stalled batch, in its own loop."""

    def __init__(self, name: str, batch_id: int) -> None:
        self._name = name
        self._batch_id = batch_id
        self._runner = asyncio.Runner()
        self._tasks: list[asyncio.Task[TriggerEvent]] = []

    def start(self, *, delay: float = 0.0, error: str = "It failed.") -> None:
        """Start a wait, next to those that were started before; it continues during `until` and `event`."""
        trigger = StalledBatchTrigger(
            trigger_name=self._name,
            batch_id=self._batch_id,
            error=error,
            delay=delay,
            kafka_connection="kafka_default",
            database_connection="workorders_db",
        )
        path, arguments = trigger.serialize()
        assert path == "workorders.kafka.airflow.stalled_batch.StalledBatchTrigger"
        created = StalledBatchTrigger(**json.loads(json.dumps(arguments)))
        self._tasks.append(self._runner.get_loop().create_task(first_event(created)))

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Let it wait until a condition holds, and require that no worker is woken meanwhile."""

        async def watch() -> None:
            deadline = asyncio.get_running_loop().time() + SECONDS
            while not condition():
                assert not any(task.done() for task in self._tasks), f"a worker was woken before {what}"
                assert asyncio.get_running_loop().time() < deadline, what
                await asyncio.sleep(0.05)

        self._runner.run(watch())

    def event(self) -> str:
        """Return why a worker is woken, which each wait that was started says."""

        async def ended() -> set[str]:
            return {str((await asyncio.wait_for(task, SECONDS)).payload) for task in self._tasks}

        (payload,) = self._runner.run(ended())
        return payload

    def close(self) -> None:
        """Cancel what still waits."""
        self._runner.close()


async def first_event(trigger: StalledBatchTrigger) -> TriggerEvent:
    return await anext(aiter(trigger.run()))


@pytest.fixture
def wait(name: str, stalled: int) -> Iterator[Wait]:
    """The wait of a batch whose messages retention has deleted."""
    made = Wait(name, stalled)
    yield made
    made.close()


@pytest.fixture
def trigger(connection: Connection, idle_trigger: InProcessTrigger, name: str) -> Trigger:
    """The trigger of the batch."""
    found = triggers.find(connection, name)
    connection.commit()
    return found


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[[Wait], None]:
    """Lets a wait check its batch some times."""
    probe = StalledBatchTrigger.probe
    made: list[str | None] = []

    async def count(trigger: StalledBatchTrigger, *given: Any) -> str | None:
        found = await probe(trigger, *given)
        made.append(found)
        return found

    def check(wait: Wait) -> None:
        wait.until(lambda: len(made) > 3, "some checks")
        assert "Waiting for the next try of batch" in capfd.readouterr().out

    monkeypatch.setattr(StalledBatchTrigger, "probe", count)
    return check


def test_a_batch_that_stays_refused_wakes_no_worker_before_its_next_try_is_due_and_changes_nothing(
    wait: Wait, connection: Connection, trigger: Trigger, capfd: pytest.CaptureFixture[str]
) -> None:
    before = everything(connection, trigger)
    wait.start(error="It failed.", delay=HOUR)
    wait.until(lambda: "It failed." in capfd.readouterr().out, "the error at the end of the log")
    assert everything(connection, trigger) == before


def test_a_decision_wakes_a_worker_before_the_next_try_is_due(
    stack: LocalStack, cluster: KafkaAdmin, wait: Wait, name: str, *, checked: Callable[[Wait], None]
) -> None:
    wait.start(delay=HOUR)
    checked(wait)
    decided(stack, cluster, DecisionRequest(DecisionKind.SKIP_LOST, name, name))
    assert wait.event() == "The batch or the definition of its trigger has changed; a worker makes the next try now."


def test_a_decision_while_nothing_waited_wakes_a_worker_when_the_next_try_is_due(
    stack: LocalStack, cluster: KafkaAdmin, wait: Wait, name: str
) -> None:
    """As after the triggerer was killed, and another one has the wait."""
    decided(stack, cluster, DecisionRequest(DecisionKind.SKIP_LOST, name, name))
    wait.start(delay=0.5)
    assert wait.event() == "The next try is due, and a worker makes it."


def test_a_changed_definition_of_the_trigger_wakes_a_worker(
    wait: Wait, connection: Connection, trigger: Trigger, checked: Callable[[Wait], None]
) -> None:
    wait.start(delay=HOUR)
    checked(wait)
    connection.execute(
        """UPDATE workorders.triggers SET definition = definition || '{"max_rejected_share": 0.5}' WHERE id = %s""",
        (trigger.id,),
    )
    connection.commit()
    assert wait.event() == "The batch or the definition of its trigger has changed; a worker makes the next try now."


def test_a_batch_that_can_be_read_is_left_to_a_worker_when_its_next_try_is_due(
    stack: LocalStack, topics: Topics, idle_trigger: InProcessTrigger, name: str
) -> None:
    """As after a failure of Spark, or of the schema registry."""
    topics.produce(name, TEN)
    wait = Wait(name, idle_trigger.batch())
    try:
        wait.start(delay=0.5)
        assert wait.event() == "The next try is due, and a worker makes it."
    finally:
        wait.close()


def test_a_full_workflow_holds_the_batch_until_it_takes_work_orders_again(
    stack: LocalStack, topics: Topics, connection: Connection, name: str, checked: Callable[[Wait], None]
) -> None:
    topics.create(name)
    topics.produce(name, TEN)
    idle = InProcessTrigger(stack, name, workflow=name)
    idle.until_idle()
    topics.produce(name, TEN)
    planned = idle.batch()
    limit(connection, name, max_waiting=10, on_reached="wait")
    connection.commit()
    wait = Wait(name, planned)
    try:
        wait.start(delay=HOUR)
        checked(wait)
        limit(connection, name, max_waiting=1000, on_reached="wait")
        connection.commit()
        assert wait.event() == ENDED
    finally:
        wait.close()


def test_a_cluster_that_is_unavailable_is_waited_for_and_a_corrected_connection_wakes_a_worker(
    stack: LocalStack,
    topics: Topics,
    idle_trigger: InProcessTrigger,
    name: str,
    *,
    monkeypatch: pytest.MonkeyPatch,
    checked: Callable[[Wait], None],
) -> None:
    topics.produce(name, TEN)
    planned = idle_trigger.batch()
    connect_kafka(monkeypatch, {"bootstrap.servers": f"127.0.0.1:{free_port()}"})
    monkeypatch.setattr("workorders.kafka.airflow.triggers.KafkaAdmin", partial(KafkaAdmin, timeout_seconds=0.2))
    wait = Wait(name, planned)
    try:
        wait.start(delay=HOUR)
        checked(wait)
        connect_kafka(monkeypatch, dict(stack.kafka_settings))
        monkeypatch.setattr("workorders.kafka.airflow.triggers.KafkaAdmin", KafkaAdmin)
        assert wait.event() == ENDED
    finally:
        wait.close()


@pytest.mark.parametrize("refused", [False, True], ids=["unavailable", "refuses the login"])
def test_a_database_that_does_not_answer_wakes_no_worker_although_the_next_try_is_due(
    stack: LocalStack, wait: Wait, *, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, refused: bool
) -> None:
    """A worker would fail as well, and the task would be deferred again at once."""
    parts = conninfo_to_dict(stack.database_url)
    wrong = stack.database_url.replace(str(parts["password"]), "wrong")
    monkeypatch.setenv(
        "AIRFLOW_CONN_WORKORDERS_DB", wrong if refused else f"postgresql://a:secret@127.0.0.1:{free_port()}/a"
    )
    wait.start()
    seen: list[str] = []
    wait.until(lambda: seen.append(capfd.readouterr().out) or "the next look is in 1 s." in "".join(seen), "a line")  # type: ignore[func-returns-value]
    assert "secret" not in "".join(seen)
    monkeypatch.setenv("AIRFLOW_CONN_WORKORDERS_DB", stack.database_url)
    assert wait.event() == "The next try is due, and a worker makes it."
