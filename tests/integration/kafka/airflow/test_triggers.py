"""The trigger against a real broker and a real ledger, in one event loop as in the triggerer."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

import psutil
import pytest
from airflow.triggers.base import TaskSkippedEvent, TaskSuccessEvent, TriggerEvent

from local_stack.stack import LocalStack
from support.dag_runs import DagRuns
from support.definitions import define
from support.eventually import eventually
from support.lost_broker import LostBroker
from support.topics import Topics
from workorders.airflow.triggers.polling import FAILED, MAX_CONNECTIONS
from workorders.core.postgres.connection import Connection, connect
from workorders.kafka.airflow.triggers import DISPATCH_SECONDS, NewMessagesTrigger
from workorders.kafka.client.admin import KafkaAdmin
from workorders.kafka.client.settings import client_settings
from workorders.kafka.exceptions import KafkaUnavailableError
from workorders.kafka.ledger import batches, positions
from workorders.kafka.planning.planner import plan_batch, register

pytestmark = pytest.mark.integration

SECONDS = 300.0
POLL_SECONDS = 0.1
T = TypeVar("T")


@pytest.fixture(scope="module")
def planner(stack: LocalStack) -> KafkaAdmin:
    """One client for all that these tests plan."""
    return KafkaAdmin(client_settings(stack.kafka_settings))


@pytest.fixture(autouse=True)
def connections(stack: LocalStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's connections, as its environment gives them."""
    monkeypatch.setenv(
        "AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": dict(stack.kafka_settings)})
    )
    monkeypatch.setenv("AIRFLOW_CONN_WORKORDERS_DB", stack.database_url)


class Waiting:
    """Makes triggers for one topic, plans its batches, and runs triggers until they fire."""

    def __init__(self, name: str, loop: asyncio.Runner, planner: KafkaAdmin, stack: LocalStack) -> None:
        self._name = name
        self._loop = loop
        self._database_url = stack.database_url
        self._cluster = planner

    def trigger(
        self, *, idle_after: float = SECONDS, ingest_dag_id: str | None = None, **fields: Any
    ) -> NewMessagesTrigger:
        """Return a trigger that looks ten times a second."""
        given = {"starting_offsets": "latest", "poll_interval": POLL_SECONDS, **fields}
        definition = define(self._name, **given).model_dump(mode="json")
        return NewMessagesTrigger(definition=definition, ingest_dag_id=ingest_dag_id, idle_after=idle_after)

    def topic_answers(self) -> bool:
        """Return whether the topic's partitions can be read: their leader does not know of itself at once."""

        async def ask() -> None:
            partitions = await self._cluster.partitions([self._name])
            (await self._cluster.offsets(partitions.require())).require()

        try:
            self.run(ask())
        except KafkaUnavailableError:
            return False
        return True

    def plan(self, **fields: Any) -> int | None:
        """Plan a batch, and return its number; None when there was nothing."""
        with connect(self._database_url) as connection:
            return self.run(plan_batch(connection, self._cluster, define(self._name, **fields))).batch_id

    def plan_long_ago(self) -> None:
        """Let the last batch be planned so long ago that its listener run must have died."""
        with connect(self._database_url) as connection:
            connection.execute(
                """
                UPDATE workorders.kafka_ranges SET planned_at = now() - %s * interval '1 second'
                FROM workorders.triggers WHERE triggers.id = kafka_ranges.trigger_id AND triggers.name = %s
                """,
                (DISPATCH_SECONDS + 1, self._name),
            )

    def event(self, **arguments: Any) -> TriggerEvent:
        """Run a trigger to its event."""
        return self.run(first_event(self.trigger(**arguments)))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run in the loop that all tests share."""
        return self._loop.run(asyncio.wait_for(coroutine, SECONDS))


@pytest.fixture
def waiting(name: str, loop: asyncio.Runner, planner: KafkaAdmin, stack: LocalStack, topics: Topics) -> Waiting:
    """A topic of two partitions without messages, and the sensor that waits for it."""
    topics.create(name, 2)
    made = Waiting(name, loop, planner, stack)
    eventually(made.topic_answers, seconds=SECONDS, what="an answer of the new topic's leader")
    return made


@pytest.fixture
def known(waiting: Waiting) -> Waiting:
    """The same, once the ledger knows the topic's partitions."""
    assert waiting.plan() is None
    return waiting


@pytest.fixture
def soon_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a trigger wait five seconds for an answer of Kafka, and not fifteen."""
    monkeypatch.setattr("workorders.kafka.airflow.triggers.KafkaAdmin", partial(KafkaAdmin, timeout_seconds=5.0))


async def first_event(trigger: NewMessagesTrigger) -> TriggerEvent:
    """Return the first event of a trigger."""
    return await anext(aiter(trigger.run()))


async def event_after(trigger: NewMessagesTrigger, act: Callable[[], Awaitable[None]]) -> TriggerEvent:
    """Let a trigger wait, do something, and return its event."""
    task = asyncio.create_task(first_event(trigger))
    await act()
    return await task


def test_a_message_that_is_sent_after_the_listener_logged_that_it_waits_is_not_skipped_by_latest(
    waiting: Waiting, name: str, topics: Topics, stack: LocalStack, capfd: pytest.CaptureFixture[str]
) -> None:
    topics.produce(name, [b"{}"] * 3)
    assert isinstance(waiting.event(), TaskSuccessEvent)
    assert "Waiting for messages" not in capfd.readouterr().out
    assert waiting.plan(starting_offsets="latest") is None

    async def produce_once_it_waits() -> None:
        await until_logged(capfd, "Waiting for messages")
        topics.produce(name, [b"{}"])

    assert isinstance(waiting.run(event_after(waiting.trigger(), produce_once_it_waits)), TaskSuccessEvent)
    batch_id = waiting.plan()
    assert batch_id is not None
    with connect(stack.database_url) as connection:
        (only,) = batches.load(connection, batch_id).ranges
    assert (only.range.partition.partition, only.range.start, only.range.end) == (0, 3, 4)


def test_it_waits_for_a_topic_that_does_not_exist_and_fires_when_it_is_created(
    name: str,
    loop: asyncio.Runner,
    planner: KafkaAdmin,
    stack: LocalStack,
    topics: Topics,
    *,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("workorders.kafka.airflow.triggers.REFRESH_SECONDS", 0.2)
    waiting = Waiting(name, loop, planner, stack)
    assert isinstance(waiting.event(), TaskSuccessEvent)
    assert waiting.plan() is None

    async def create_once_it_waits() -> None:
        await until_logged(capfd, "Waiting for messages")
        await asyncio.to_thread(topics.create, name)

    assert isinstance(waiting.run(event_after(waiting.trigger(), create_once_it_waits)), TaskSuccessEvent)


def test_it_fires_for_a_message_of_a_partition_that_was_added(known: Waiting, name: str, topics: Topics) -> None:
    topics.grow(name, 3)
    topics.produce(name, [b"{}"], 2)
    assert isinstance(known.event(), TaskSuccessEvent)


def test_a_wait_without_messages_ends_as_skipped(known: Waiting, capfd: pytest.CaptureFixture[str]) -> None:
    assert isinstance(known.event(idle_after=1.0), TaskSkippedEvent)
    assert "Nothing came within 1 s; this run ends without work." in capfd.readouterr().out


def test_it_fires_when_its_only_partition_loses_its_leader_and_when_the_alert_of_that_is_due(
    name: str,
    loop: asyncio.Runner,
    planner: KafkaAdmin,
    stack: LocalStack,
    lost_broker: LostBroker,
    *,
    connection: Connection,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("workorders.kafka.airflow.triggers.REFRESH_SECONDS", 0.2)
    waiting = Waiting(name, loop, planner, stack)
    topics = [lost_broker.topic]
    trigger = register(connection, define(name, topics=topics))
    (partition,) = waiting.run(planner.partitions(topics)).require()
    positions.insert(connection, trigger, partition, 5)
    connection.commit()
    assert isinstance(waiting.event(topics=topics, idle_after=60.0), TaskSuccessEvent)
    assert f"The stall of {lost_broker.topic} 0 has begun" in capfd.readouterr().out
    assert waiting.plan(topics=topics) is None
    assert isinstance(waiting.event(topics=topics, idle_after=2.0), TaskSkippedEvent)
    assert isinstance(waiting.event(topics=topics, alert_after=0), TaskSuccessEvent)


@pytest.mark.parametrize("at_work", [1, 0])
def test_it_fires_for_an_unfinished_batch_without_a_run_at_work(
    known: Waiting, name: str, topics: Topics, monkeypatch: pytest.MonkeyPatch, at_work: int
) -> None:
    airflow = DagRuns.in_place(monkeypatch)
    topics.produce(name, [b"{}"] * 3)
    batch_id = known.plan()
    assert isinstance(known.event(ingest_dag_id="an_ingest", idle_after=1.0), TaskSkippedEvent)
    assert airflow.asked == [], "the listener run that planned it may still be about to dispatch it"
    known.plan_long_ago()
    airflow.confs = {f"batch_{batch_id}": {}} if at_work else {}
    event = known.event(ingest_dag_id="an_ingest", idle_after=2.0 if at_work else SECONDS)
    assert isinstance(event, TaskSkippedEvent if at_work else TaskSuccessEvent)
    assert airflow.asked == ["GetDRCount"]


def test_an_airflow_that_does_not_answer_disturbs_no_wait(
    known: Waiting, name: str, topics: Topics, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    DagRuns.in_place(monkeypatch).never_answers = lambda _: True
    topics.produce(name, [b"{}"] * 3)
    known.plan()
    known.plan_long_ago()
    assert isinstance(known.event(ingest_dag_id="an_ingest", idle_after=2.0), TaskSkippedEvent)
    assert "Airflow did not answer which ingest runs exist" in capfd.readouterr().out


def test_many_triggers_hold_as_few_connections_as_one(
    known: Waiting, stack: LocalStack, capfd: pytest.CaptureFixture[str]
) -> None:
    async def connections_of(triggers: int) -> tuple[int, int]:
        waits = [asyncio.create_task(first_event(known.trigger())) for _ in range(triggers)]
        await until_logged(capfd, "Waiting for messages", times=triggers)
        while_they_wait = held(stack)
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        return while_they_wait

    postgres, kafka = known.run(connections_of(1))
    assert postgres >= 1
    assert kafka >= 1
    postgres_of_many, kafka_of_many = known.run(connections_of(20))
    assert postgres_of_many < postgres + MAX_CONNECTIONS
    # One to four clients; each holds a connection to the broker by its name and one by its number, and closes the first
    # when idle.
    assert kafka_of_many <= kafka + 7


@pytest.mark.usefixtures("soon_given_up")
def test_an_unavailable_broker_is_waited_for_and_logged(
    known: Waiting, name: str, topics: Topics, stack: LocalStack, capfd: pytest.CaptureFixture[str]
) -> None:
    async def lose_the_broker() -> None:
        await until_logged(capfd, "Waiting for messages")
        await asyncio.to_thread(stack.kafka.kill)
        try:
            logged = await until_logged(capfd, "the next look is in 2 s.")
        finally:
            await asyncio.to_thread(stack.kafka.start)
        assert f"Kafka at {stack.bootstrap_servers} did not answer" in logged
        assert "Nothing was lost" in logged
        await asyncio.to_thread(topics.produce, name, [b"{}"])

    assert isinstance(known.run(event_after(known.trigger(), lose_the_broker)), TaskSuccessEvent)


def test_an_unavailable_database_is_waited_for_and_logged(
    known: Waiting, name: str, topics: Topics, stack: LocalStack, capfd: pytest.CaptureFixture[str]
) -> None:
    async def lose_the_database() -> None:
        await until_logged(capfd, "Waiting for messages")
        await asyncio.to_thread(stack.postgres.stop)
        try:
            topics.produce(name, [b"{}"])
            logged = await until_logged(capfd, "the next look is in 1 s.")
        finally:
            await asyncio.to_thread(stack.postgres.start)
        assert "Nothing was lost" in logged

    assert isinstance(known.run(event_after(known.trigger(), lose_the_database)), TaskSuccessEvent)


@pytest.mark.usefixtures("soon_given_up")
def test_wrong_credentials_fail_the_task_with_the_reason(
    known: Waiting, stack: LocalStack, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    wrong = {**stack.kafka.sasl_settings, "sasl.password": "wrong-password"}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_REFUSED", json.dumps({"conn_type": "kafka", "extra": wrong}))
    sentence = known.event(kafka_connection="kafka_refused").payload[FAILED]
    logged = capfd.readouterr().out
    assert sentence in logged
    assert sentence.endswith(" Nothing was changed.")
    assert "refused the client" in logged
    assert "check the credentials and permissions of the Airflow Kafka connection" in logged
    assert "wrong-password" not in logged


async def until_logged(capfd: pytest.CaptureFixture[str], text: str, *, times: int = 1) -> str:
    """Wait until the log contains a text so many times, and return what was logged since it was read last."""
    logged = ""
    while logged.count(text) < times:
        await asyncio.sleep(POLL_SECONDS)
        logged += capfd.readouterr().out
    return logged


def held(stack: LocalStack) -> tuple[int, int]:
    """Return how many connections to Postgres and to Kafka this process holds."""
    kafka_port = int(stack.bootstrap_servers.rpartition(":")[2])
    ports = [
        connection.raddr.port
        for connection in psutil.Process().net_connections(kind="tcp")
        if connection.raddr and connection.status == psutil.CONN_ESTABLISHED
    ]
    return ports.count(stack.postgres.port), ports.count(kafka_port)


def test_it_records_how_far_the_log_goes_when_it_begins_to_look(
    known: Waiting, topics: Topics, stack: LocalStack, name: str
) -> None:
    topics.produce(name, [b"{}"] * 3)
    assert isinstance(known.event(), TaskSuccessEvent)
    with connect(stack.database_url) as connection:
        lags = connection.execute(
            """
            SELECT samples.last_stable - samples.next_offset FROM workorders.kafka_lag_samples AS samples
            JOIN workorders.triggers ON triggers.id = samples.trigger_id WHERE triggers.name = %s
            """,
            (name,),
        ).fetchall()
    assert sorted(lags)[-1] != (0,)
    assert sum(lag for (lag,) in lags) == 3
