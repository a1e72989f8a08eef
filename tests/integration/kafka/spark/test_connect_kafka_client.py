"""What a Spark Connect server does with the settings of a Kafka client: passwords stay secret, and no group is used."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka.admin import AclOperation, AdminClient, ResourceType  # type: ignore[attr-defined]

from local_stack.ports import free_port
from local_stack.stack import LocalStack
from local_stack.waiting import wait_until
from support.attempting import ingest_batch
from support.definitions import define
from support.rights import Rights
from support.topics import Topics
from workorders.core.postgres.connection import connect
from workorders.kafka.client.admin import KafkaAdmin, run
from workorders.kafka.client.secrets import JobSecrets
from workorders.kafka.ingest.attempt import RangeOutcome
from workorders.kafka.planning.planner import Plan, plan_batch
from workorders.kafka.spark.connect import ConnectServer, ConnectSession
from workorders.kafka.spark.connect_server import TOKEN_VARIABLE
from workorders.kafka.spark.source import GROUP_PREFIX

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

Planner = Callable[..., Plan]

TOKEN = "the-token-of-a-test"
HUNDRED = [b'{"n":1}'] * 100
PAGES = ("environment/", "SQL/", "SQL/execution/?id=0", "SQL/execution/?id=1", "connect/", "jobs/", "stages/")
PARTS = ("jobs", "stages?details=true", "executors", "environment", "sql?details=true&length=1000")

_LOCK = "SELECT FROM workorders.kafka_ledger WHERE trigger_id = %s FOR UPDATE"


class Server:
    """A server of `workorders spark serve` whose pages a user has switched on."""

    def __init__(self, stack: LocalStack, folder: Path) -> None:
        self._port, self._pages, self._log = free_port(), free_port(), folder / "server.log"
        command = [str(Path(sys.executable).with_name("workorders")), "spark", "serve", "--port", str(self._port)]
        for setting in ("spark.ui.enabled=true", f"spark.ui.port={self._pages}"):
            command += ["--conf", setting]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, env={**stack.environment(), TOKEN_VARIABLE: TOKEN}, stdout=log, stderr=log
            )
        assert wait_until(lambda: "is ready on port" in self._log.read_text(), seconds=300)
        self.address = ConnectServer(name="pages", host="localhost", port=self._port, token=TOKEN)

    def shown(self) -> str:
        """Return everything that the server shows: pages, what programs can ask for, and its log."""
        applications = self._get("api/v1/applications")
        (application,) = json.loads(applications)
        parts = [self._get(f"api/v1/applications/{application['id']}/{part}") for part in PARTS]
        return "\n".join([applications, *parts, *map(self._get, PAGES), self._log.read_text()])

    def daemons(self) -> list[psutil.Process]:
        """Return the processes that fork Python workers."""
        (jvm,) = psutil.Process(self._process.pid).children()
        return jvm.children()

    def workers(self) -> list[psutil.Process]:
        """Return the Python workers."""
        return [worker for daemon in self.daemons() for worker in daemon.children()]

    def kill_workers(self) -> None:
        """Kill every worker, also one in the middle of a transaction."""
        for worker in self.workers():
            worker.kill()

    def lose_a_worker(self, event: Callable[[], object]) -> None:
        """Do something, and wait until a worker that ran before has ended."""
        running = set(self.workers())
        event()
        assert wait_until(lambda: not running <= set(self.workers()), seconds=60)

    def close(self) -> None:
        """End the server."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)

    def _get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://localhost:{self._pages}/{path}", timeout=30) as answer:
            text: str = answer.read().decode()
        return text


@pytest.fixture(scope="module")
def server(stack: LocalStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server for the tests of this module."""
    with closing(Server(stack, tmp_path_factory.mktemp("server"))) as started:
        yield started


@pytest.fixture
def plan(stack: LocalStack, cluster: KafkaAdmin, topics: Topics, name: str) -> Planner:
    """Plans a batch of a hundred messages of a topic and its trigger."""

    def planned(topic: str = name) -> Plan:
        if not topics.exists(topic):
            topics.create(topic)
        topics.produce(topic, HUNDRED)
        with connect(stack.database_url) as own:
            return run(plan_batch(own, cluster, define(topic)))

    return planned


def attempted(
    stack: LocalStack,
    server: Server,
    planned: Plan,
    kafka: Mapping[str, Any],
    *,
    before_spark: Callable[[], object] = lambda: None,
) -> list[RangeOutcome]:
    """Make one attempt at the batch, as the task does; something may happen between its checks and its query."""
    assert planned.batch_id is not None
    secrets = JobSecrets(stack.database_url, kafka)
    with ConnectSession(server.address, conf={}) as session:
        return ingest_batch(secrets, planned.batch_id, session.open, before_spark=before_spark)


def while_it_runs(
    stack: LocalStack, server: Server, planned: Plan, kafka: Mapping[str, Any], then: Callable[[], object]
) -> list[RangeOutcome]:
    """Make an attempt, and do something while its worker waits for the ledger."""
    with connect(stack.database_url) as lock, ThreadPoolExecutor(1) as pool:

        def hold() -> None:
            lock.execute("SELECT FROM workorders.kafka_ledger WHERE trigger_id = %s FOR UPDATE", (planned.trigger.id,))

        attempt = pool.submit(attempted, stack, server, planned, kafka, before_spark=hold)
        assert wait_until(lambda: waits(stack, planned), seconds=120)
        then()
        lock.rollback()
        return attempt.result(timeout=120)


def waits(stack: LocalStack, planned: Plan) -> bool:
    with connect(stack.database_url) as own:
        found = own.execute(
            "SELECT FROM pg_stat_activity WHERE application_name = %s AND wait_event_type = 'Lock'",
            (f"workorders batch {planned.batch_id}",),
        ).fetchall()
    return len(found) == 1


def test_no_page_no_log_and_no_error_has_kafkas_password(
    stack: LocalStack, server: Server, topics: Topics, plan: Planner, name: str
) -> None:
    """While a batch runs, after its end, when its worker is killed, and when its messages or its topic are gone."""
    kafka = stack.kafka.sasl_settings
    password = str(kafka["sasl.password"])
    shown: list[str] = []
    done = while_it_runs(stack, server, plan(), kafka, lambda: shown.append(server.shown()))
    assert [(outcome.error, outcome.created.created) for outcome in done] == [(None, 100)]
    planned = plan()
    killed = while_it_runs(stack, server, planned, kafka, server.kill_workers)
    lost = attempted(stack, server, planned, kafka, before_spark=lambda: topics.delete_before(name, 150))
    other = f"{name}-gone"
    gone = attempted(stack, server, plan(other), kafka, before_spark=lambda: topics.delete(other))
    errors = [outcome.error or "" for outcome in killed + lost + gone]
    assert all(errors)
    shown += [server.shown(), *errors]
    assert all("redacted" in text for text in shown[:2])
    assert "kafka.group.id" not in shown[1]  # Spark's warning of each query
    assert [text for text in shown if password in text or "PlainLoginModule" in text] == []


def test_killed_queries_leave_no_process_behind(stack: LocalStack, server: Server, plan: Planner) -> None:
    """A session that is released while its query runs, as when a task is ended."""
    assert [outcome.error for outcome in attempted(stack, server, plan(), stack.kafka_settings)] == [None]
    daemons = server.daemons()
    planned = plan()
    batch_id = planned.batch_id
    assert batch_id is not None
    for _ in range(5):
        with connect(stack.database_url) as lock, ThreadPoolExecutor(1) as pool:
            secrets = JobSecrets(stack.database_url, stack.kafka_settings)
            with ConnectSession(server.address, conf={}) as session:
                locked = partial(lock.execute, _LOCK, (planned.trigger.id,))
                attempt = pool.submit(ingest_batch, secrets, batch_id, session.open, before_spark=locked)
                assert wait_until(lambda: waits(stack, planned), seconds=120)
                server.lose_a_worker(session.release)  # one that gets the lock first would commit
                lock.rollback()
                attempt.result(timeout=120)
    assert [outcome.error for outcome in attempted(stack, server, planned, stack.kafka_settings)] in ([None], [])
    assert server.daemons() == daemons
    assert wait_until(lambda: len(server.workers()) <= (os.cpu_count() or 1), seconds=90)


def test_a_reader_joins_no_group_commits_nothing_and_needs_no_right_to_a_group(
    stack: LocalStack, server: Server, plan: Planner, name: str
) -> None:
    rights = Rights(stack)
    rights.give(ResourceType.TOPIC, name, AclOperation.DESCRIBE, AclOperation.READ)
    try:
        outcomes = attempted(stack, server, plan(), stack.kafka.limited_settings)
    finally:
        rights.take_all()
    assert [(outcome.error, outcome.created.created) for outcome in outcomes] == [(None, 100)]
    client = AdminClient(dict(stack.kafka_settings))
    listed = client.list_consumer_groups(request_timeout=30).result()
    assert not listed.errors
    assert [group.group_id for group in listed.valid if group.group_id.startswith(GROUP_PREFIX)] == []


def test_two_batches_of_a_trigger_with_different_settings_are_read_at_the_same_time(
    stack: LocalStack, server: Server, topics: Topics, plan: Planner, name: str
) -> None:
    """As after a change of the connection: consumers that are kept under one group must have equal settings."""
    first = plan()
    assert [outcome.error for outcome in attempted(stack, server, first, stack.kafka_settings)] == [None]
    second = plan()
    changed = {**stack.kafka_settings, "client.id": "changed"}

    def replay() -> None:
        replayed.extend(attempted(stack, server, first, changed))

    replayed: list[RangeOutcome] = []
    done = while_it_runs(stack, server, second, stack.kafka_settings, replay)
    assert [(outcome.error, outcome.created.created) for outcome in done] == [(None, 100)]
    assert [(outcome.error, outcome.created.existing) for outcome in replayed] == [(None, 100)]
