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
from support.ingesting import row
from support.stalling import let_it_last
from support.topics import Topics
from workorders.core import triggers
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger
from workorders.kafka.airflow import stalled_batch
from workorders.kafka.airflow.stalled_batch import StalledBatchTrigger
from workorders.kafka.client.admin import KafkaAdmin
from workorders.kafka.ledger import batches, stall_alerts
from workorders.kafka.recovery.decisions import DecisionKind
from workorders.kafka.recovery.resolution import DecisionRequest

pytestmark = pytest.mark.integration

SECONDS = 60.0
HOUR = 3600.0
LOST = "were deleted by retention before they were read"


@pytest.fixture(autouse=True)
def quick(stack: LocalStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's connections, and looks and tries that follow one another quickly."""
    connect_kafka(monkeypatch, dict(stack.kafka_settings))
    monkeypatch.setenv("AIRFLOW_CONN_WORKORDERS_DB", stack.database_url)
    monkeypatch.setattr(stalled_batch, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(stalled_batch, "MAX_SECONDS", 1)


def connect_kafka(monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": settings}))


class Wait:
    """The wait of one stalled batch, in a loop of its own."""

    def __init__(self, name: str, batch_id: int) -> None:
        self._name = name
        self._batch_id = batch_id
        self._runner = asyncio.Runner()
        self._tasks: list[asyncio.Task[TriggerEvent]] = []

    def start(self, *, delay: float = 0.0, alert_after: float = HOUR, error: str = "It failed.") -> None:
        """Start a wait, next to those that were started before; it continues during `until` and `event`."""
        trigger = StalledBatchTrigger(
            trigger_name=self._name,
            batch_id=self._batch_id,
            error=error,
            delay=delay,
            alert_after=alert_after,
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


class Attempts:
    """The attempts at the trigger's one partition, as the ledger counts them."""

    def __init__(self, connection: Connection, trigger: Trigger) -> None:
        self._connection, self._trigger = connection, trigger

    def __call__(self) -> int:
        found = row(self._connection, self._trigger)
        self._connection.rollback()
        assert found.status == "stalled"
        return found.attempts


@pytest.fixture
def attempts(connection: Connection, trigger: Trigger, stalled: int) -> Attempts:
    return Attempts(connection, trigger)


def test_a_batch_that_cannot_be_read_is_tried_again_and_again_without_a_worker(
    wait: Wait, attempts: Attempts, connection: Connection, trigger: Trigger, capfd: pytest.CaptureFixture[str]
) -> None:
    before = row(connection, trigger)
    wait.start(error="It failed.")
    wait.until(lambda: attempts() >= before.attempts + 3, "three tries")
    after = row(connection, trigger)
    assert after.last_error is not None
    assert LOST in after.last_error
    assert after.next_attempt_at is not None
    assert before.next_attempt_at is not None
    assert after.next_attempt_at > before.next_attempt_at
    output = capfd.readouterr().out
    # What failed ends the log; the same sentence again and again would only lengthen it.
    assert output.index("It failed.") < output.index("[10, 15)")
    assert output.count("Next try in 1 s.") == 1


def test_nothing_is_tried_before_the_next_try_is_due(wait: Wait, attempts: Attempts) -> None:
    before = attempts()
    wait.start(delay=HOUR)
    wait.start()
    wait.until(lambda: attempts() > before, "the try of the wait that is due")
    assert attempts() == before + 1


def test_a_decision_wakes_a_worker_before_the_next_try_is_due(
    stack: LocalStack, cluster: KafkaAdmin, wait: Wait, name: str, *, capfd: pytest.CaptureFixture[str]
) -> None:
    wait.start(delay=HOUR)
    looked = eventually_looked(wait, capfd)
    assert looked
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
    wait: Wait, connection: Connection, trigger: Trigger, capfd: pytest.CaptureFixture[str]
) -> None:
    wait.start(delay=HOUR)
    assert eventually_looked(wait, capfd)
    connection.execute(
        """UPDATE workorders.triggers SET definition = definition || '{"max_rejected_share": 0.5}' WHERE id = %s""",
        (trigger.id,),
    )
    connection.commit()
    assert wait.event() == "The batch or the definition of its trigger has changed; a worker makes the next try now."


def eventually_looked(wait: Wait, capfd: pytest.CaptureFixture[str]) -> bool:
    """Let a wait look at the database some times."""
    looks: list[None] = []
    wait.until(lambda: looks.append(None) or len(looks) > 20, "some looks")  # type: ignore[func-returns-value]
    return "Waiting for the next try of batch" in capfd.readouterr().out


def test_a_batch_that_can_be_read_is_left_to_a_worker_when_its_next_try_is_due(
    stack: LocalStack, topics: Topics, idle_trigger: InProcessTrigger, name: str
) -> None:
    """As after a failure of Spark, or of the schema registry."""
    topics.produce(name, TEN)
    planned = idle_trigger.plan().batch_id
    assert planned is not None
    wait = Wait(name, planned)
    try:
        wait.start(delay=0.5)
        assert wait.event() == "The next try is due, and a worker makes it."
    finally:
        wait.close()


def test_a_full_workflow_holds_the_batch_until_it_takes_work_orders_again(
    stack: LocalStack, topics: Topics, connection: Connection, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    topics.create(name)
    topics.produce(name, TEN)
    idle = InProcessTrigger(stack, name, workflow=name)
    idle.until_idle()
    topics.produce(name, TEN)
    planned = idle.plan().batch_id
    assert planned is not None
    trigger = triggers.find(connection, name)
    limit(connection, trigger.workflow, waiting=10, kind="hard")
    connection.commit()
    wait = Wait(name, planned)
    try:
        wait.start()
        wait.until(lambda: Attempts(connection, trigger)() >= 2 if is_stalled(connection, trigger) else False, "tries")
        found = row(connection, trigger)
        connection.rollback()
        assert found.last_error is not None
        assert found.last_error.endswith("Nothing was committed.")
        limit(connection, trigger.workflow, waiting=1000, kind="hard")
        connection.commit()
        assert wait.event() == "The next try is due, and a worker makes it."
    finally:
        wait.close()


def is_stalled(connection: Connection, trigger: Trigger) -> bool:
    found = row(connection, trigger)
    connection.rollback()
    return found.status == "stalled"


def test_an_alert_that_is_due_is_sent_by_a_worker(
    wait: Wait, attempts: Attempts, connection: Connection, trigger: Trigger
) -> None:
    before = attempts()
    wait.start()
    wait.until(lambda: attempts() > before, "a try")
    let_it_last(connection, trigger, HOUR)
    assert wait.event() == "An alert is due, which a worker sends."
    assert len(stall_alerts.claim(connection, trigger, after_seconds=HOUR)) == 1


def test_an_alert_that_was_sent_wakes_no_worker_again(
    wait: Wait, attempts: Attempts, connection: Connection, trigger: Trigger
) -> None:
    let_it_last(connection, trigger, HOUR)
    assert len(stall_alerts.claim(connection, trigger, after_seconds=HOUR)) == 1
    before = attempts()
    wait.start()
    wait.until(lambda: attempts() > before + 1, "two tries")


def test_a_cluster_that_is_away_is_waited_for_and_a_corrected_connection_is_used(
    stack: LocalStack,
    wait: Wait,
    attempts: Attempts,
    connection: Connection,
    trigger: Trigger,
    *,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connect_kafka(monkeypatch, {"bootstrap.servers": f"127.0.0.1:{free_port()}"})
    monkeypatch.setattr("workorders.kafka.airflow.triggers.KafkaAdmin", partial(KafkaAdmin, timeout_seconds=1.0))
    wait.start()
    wait.until(lambda: "did not answer" in str(last_error(connection, trigger)), "the error of the cluster")
    connect_kafka(monkeypatch, dict(stack.kafka_settings))
    wait.until(lambda: LOST in str(last_error(connection, trigger)), "an answer of the cluster")


def last_error(connection: Connection, trigger: Trigger) -> str | None:
    found = row(connection, trigger)
    connection.rollback()
    return found.last_error


def test_a_database_that_is_away_is_waited_for_without_a_worker(
    stack: LocalStack,
    wait: Wait,
    attempts: Attempts,
    *,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = attempts()
    monkeypatch.setenv("AIRFLOW_CONN_WORKORDERS_DB", f"postgresql://a:secret@127.0.0.1:{free_port()}/a")
    wait.start()
    seen: list[str] = []
    wait.until(lambda: seen.append(capfd.readouterr().out) or "the next look is in 1 s." in "".join(seen), "a line")  # type: ignore[func-returns-value]
    assert attempts() == before
    assert "secret" not in "".join(seen)
    monkeypatch.setenv("AIRFLOW_CONN_WORKORDERS_DB", stack.database_url)
    wait.until(lambda: attempts() > before, "a try once the database is back")


def test_a_replay_that_fails_waits_as_well_and_stalls_nothing(
    connection: Connection, idle_trigger: InProcessTrigger, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trigger = triggers.find(connection, name)
    (finished,) = {found.id for found in batches.summaries(connection, name)}
    connect_kafka(monkeypatch, {"bootstrap.servers": f"127.0.0.1:{free_port()}"})
    monkeypatch.setattr("workorders.kafka.airflow.triggers.KafkaAdmin", partial(KafkaAdmin, timeout_seconds=1.0))
    wait = Wait(name, finished)

    def errors() -> list[str | None]:
        found = [part.last_error for part in batches.load(connection, finished).ranges]
        connection.rollback()
        return found

    try:
        wait.start()
        wait.until(lambda: any(errors()), "a try of the replay")
        assert not is_stalled(connection, trigger)
    finally:
        wait.close()


def test_two_waits_for_one_batch_harm_nothing(
    stack: LocalStack, cluster: KafkaAdmin, wait: Wait, attempts: Attempts, name: str
) -> None:
    """As on two triggerers, of which one is thought to be dead."""
    before = attempts()
    wait.start()
    wait.start()
    wait.until(lambda: attempts() >= before + 4, "tries of both")
    decided(stack, cluster, DecisionRequest(DecisionKind.SKIP_LOST, name, name))
    assert wait.event().endswith("now.")


def test_a_database_that_refuses_the_triggerer_wakes_no_worker(
    stack: LocalStack,
    wait: Wait,
    attempts: Attempts,
    *,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker would be refused as well, and the task would be deferred again at once."""
    parts = conninfo_to_dict(stack.database_url)
    wrong = stack.database_url.replace(str(parts["password"]), "wrong")
    monkeypatch.setenv("AIRFLOW_CONN_WORKORDERS_DB", wrong)
    before = attempts()
    wait.start()
    seen: list[str] = []
    wait.until(lambda: seen.append(capfd.readouterr().out) or "the next look is in 2 s." in "".join(seen), "two lines")  # type: ignore[func-returns-value]
    assert attempts() == before
