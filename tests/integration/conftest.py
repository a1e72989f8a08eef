"""A separate name, topic, and trigger for every test, so that tests share one stack and nothing else."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from local_stack.stack import LocalStack
from support.attempt_on_server import ON_SERVER
from support.batch_submission import APPLICATION
from support.command import Command
from support.eventually import eventually
from support.in_process_trigger import TEN, InProcessTrigger, after_ten
from support.lost_broker import LostBroker
from support.spark_submit import submit_command
from support.topics import Topics
from support.work_orders import ORPHANS
from workorders.core import triggers
from workorders.core.postgres.connection import Connection, connect
from workorders.core.triggers import Trigger
from workorders.kafka.client.admin import KafkaAdmin, run
from workorders.kafka.client.settings import client_settings

Submit = Callable[..., "subprocess.CompletedProcess[str]"]

# Some 10 s on an idle machine; much more where many share it.
_SUBMIT_SECONDS = 400


@pytest.fixture
def name() -> str:
    """A name that no other test has, for a trigger, its topic and its group."""
    return f"test-{uuid4().hex[:12]}"


@pytest.fixture(scope="module")
def database_url(stack: LocalStack) -> str:
    """The database that `connection` leads to; a module may have another one."""
    return stack.database_url


@pytest.fixture(scope="module")
def whole_work_orders(database_url: str) -> Iterator[None]:
    """Whatever the tests of a module did: no work order is without dataclip or rejection, and none of these alone."""
    yield
    with psycopg.connect(database_url) as connection:
        assert connection.execute(f"{ORPHANS} LIMIT 5").fetchall() == []


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    """One event loop for the tests of a module: the triggers of a process share their connections in it."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def connection(database_url: str, whole_work_orders: None) -> Iterator[Connection]:
    """A connection as the package makes it."""
    with connect(database_url, application_name="test") as connection:
        yield connection
        connection.rollback()


@pytest.fixture
def other(database_url: str) -> Iterator[Connection]:
    """A connection of another caller."""
    with connect(database_url, application_name="test other") as connection:
        yield connection
        connection.rollback()


@pytest.fixture
def trigger(connection: Connection, name: str) -> Trigger:
    """A registered trigger."""
    trigger = triggers.register(connection, name=name, type_="kafka", workflow="admit", definition={})
    connection.commit()
    return trigger


@pytest.fixture(scope="session")
def topics(stack: LocalStack) -> Topics:
    """Makes and fills topics."""
    return Topics(stack.kafka_settings)


@pytest.fixture
def cluster(stack: LocalStack) -> KafkaAdmin:
    """Questions to the stack's broker."""
    return KafkaAdmin(client_settings(stack.kafka_settings))


@pytest.fixture(scope="session")
def lost_broker(stack: LocalStack, topics: Topics) -> LostBroker:
    """Lose the second broker."""
    second = stack.kafka.add_broker()
    lost = LostBroker(
        topics.create_on(2, "without-leader"), [KafkaAdmin(client_settings(stack.kafka_settings)) for _ in range(6)]
    )
    Topics(stack.kafka_settings).produce(lost.topic, [b"{}"] * 5)
    for client in lost.clients:
        run(client.log_ends([lost.topic])).require()
    second.kill()
    eventually(lambda: not topics.has_leader(lost.topic), seconds=60, what="the end of the leader")
    return lost


@pytest.fixture
def idle_trigger(stack: LocalStack, topics: Topics, name: str) -> InProcessTrigger:
    """A trigger that has ingested ten messages of its one partition."""
    return after_ten(stack, topics, name)


@pytest.fixture
def stalled(topics: Topics, idle_trigger: InProcessTrigger, name: str) -> int:
    """The number of that trigger's next batch, which stalls: retention ate offsets [10, 15)."""
    topics.produce(name, TEN)
    topics.delete_before(name, 15)
    return idle_trigger.stalled_batch()


@pytest.fixture(
    params=["spark_connect", *(pytest.param(name, marks=pytest.mark.long) for name in ("spark", "spark_cluster"))]
)
def submit(request: pytest.FixtureRequest, stack: LocalStack) -> Submit:
    """Makes an attempt at a batch as the ingest Dag does: on a Spark Connect server, by an application, on a cluster.

    An application starts a JVM for each batch, and its driver does the same as an attempt on a server.
    """
    master, variables = None, {}
    if request.param == "spark_connect":
        stack.start_spark_connect()
    if request.param == "spark_cluster":
        stack.start_spark_cluster()
        master, variables = stack.spark_cluster.master, stack.spark_cluster.variables

    def run(
        batch_id: int, *arguments: str, application: Path = APPLICATION, **secrets: str
    ) -> "subprocess.CompletedProcess[str]":
        command = (
            [sys.executable, "-m", "support.attempt_on_server"]
            if request.param == "spark_connect"
            else submit_command(",".join(map(str, stack.spark_jars)), application, master=master)
        )
        return subprocess.run(
            [*command, "--batch", str(batch_id), *arguments],
            env={**stack.environment(), ON_SERVER: stack.spark_connect.airflow_connection, **variables, **secrets},
            capture_output=True,
            text=True,
            check=False,
            timeout=_SUBMIT_SECONDS,
        )

    return run


@pytest.fixture
def workorders(stack: LocalStack, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command line, in an environment that knows the stack."""
    monkeypatch.setenv("WORKORDERS_DATABASE_URL", stack.database_url)
    monkeypatch.setenv("WORKORDERS_KAFKA", json.dumps(stack.kafka_settings))
    return Command(monkeypatch, capsys)
