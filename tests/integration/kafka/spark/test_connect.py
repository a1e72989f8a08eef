"""Batches on a real Spark Connect server that is killed, stopped, restarted, refuses, or has other code."""

import json
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

import psutil
import psycopg
import pytest

from local_stack.stack import LocalStack
from local_stack.waiting import wait_until
from support.attempting import ingest_batch
from support.definitions import define
from support.ingesting import row
from support.topics import Topics
from workorders.core.exceptions import ConfigurationError
from workorders.core.postgres.connection import Connection, connect
from workorders.kafka.client.admin import KafkaAdmin, run
from workorders.kafka.client.secrets import JobSecrets
from workorders.kafka.ingest.attempt import RangeOutcome
from workorders.kafka.ledger import positions
from workorders.kafka.planning.planner import Plan, plan_batch
from workorders.kafka.spark import connect as spark_connect
from workorders.kafka.spark import driver
from workorders.kafka.spark.connect import FEW_OFFSETS, ConnectServer, ConnectSession
from workorders.kafka.spark.partition_ingest import PartitionIngest

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

Planner = Callable[[], Plan]

WAITING_WRITERS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE application_name = 'workorders batch {}' AND wait_event_type = 'Lock'
"""


@pytest.fixture
def server(stack: LocalStack) -> Iterator[ConnectServer]:
    """The stack's server, which runs again after the test whatever that did to it."""
    stack.start_spark_connect()
    yield address(stack)
    if stack.spark_connect.is_started:
        for process in family(stack):
            with suppress(psutil.NoSuchProcess):  # a Python worker that has just ended
                process.send_signal(signal.SIGCONT)


def address(stack: LocalStack, **changes: Any) -> ConnectServer:
    fields = {"name": "warm", "host": "localhost", "port": stack.spark_connect.port, "token": stack.spark_connect.token}
    return ConnectServer(**{**fields, **changes})


def family(stack: LocalStack) -> list[psutil.Process]:
    server = psutil.Process(stack.spark_connect.process.pid)
    return [server, *server.children(recursive=True)]


@pytest.fixture
def plan(stack: LocalStack, cluster: KafkaAdmin, topics: Topics, name: str) -> Planner:
    """Plans a batch of two partitions with a hundred messages each."""

    def planned() -> Plan:
        for partition in range(2):
            topics.produce(name, [b'{"n":%d}' % n for n in range(100)], partition=partition)
        with connect(stack.database_url) as own:
            return run(plan_batch(own, cluster, define(name)))

    topics.create(name, partitions=2)
    return planned


def attempted(
    stack: LocalStack,
    server: ConnectServer,
    planned: Plan,
    *,
    epoch: int | None = None,
    conf: Mapping[str, Any] | None = None,
) -> list[RangeOutcome]:
    """Make one attempt at the batch, as the task does."""
    assert planned.batch_id is not None
    secrets = JobSecrets(stack.database_url, stack.kafka_settings)
    with ConnectSession(server, conf=conf or {}) as session:
        outcomes = ingest_batch(secrets, planned.batch_id, session.open, epoch=epoch)
    return sorted(outcomes, key=lambda outcome: outcome.range)


def created(stack: LocalStack, planned: Plan) -> list[int]:
    """Return how many work orders the trigger has, and how many different positions."""
    with psycopg.connect(stack.database_url) as connection:
        found = connection.execute(
            "SELECT count(*), count(DISTINCT (stream_id, position)) FROM workorders.work_orders WHERE trigger_id = %s",
            (planned.trigger.id,),
        ).fetchone()
    assert found is not None
    return list(found)


def next_offsets(connection: Connection, planned: Plan) -> list[int]:
    found = [row(connection, planned.trigger, number).next_offset for number in range(2)]
    connection.rollback()
    return found


@pytest.fixture
def held_back(stack: LocalStack, connection: Connection) -> Callable[[Plan, Callable[[], None]], list[RangeOutcome]]:
    """Makes an attempt that commits one partition and waits before the other; does something; lets it continue."""

    def hold(planned: Plan, then: Callable[[], None]) -> list[RangeOutcome]:
        with connect(stack.database_url) as lock, ThreadPoolExecutor(1) as pool:
            assert planned.batch_id is not None
            epoch = positions.take_epoch(lock, planned.batch_id)
            lock.commit()
            lock.execute(
                "SELECT FROM workorders.kafka_ledger WHERE trigger_id = %s AND partition = 1 FOR UPDATE",
                (planned.trigger.id,),
            )
            attempt = pool.submit(attempted, stack, address(stack), planned, epoch=epoch)
            assert wait_until(lambda: one_waits_and_one_is_done(connection, planned), seconds=120)
            then()
            lock.rollback()
            return attempt.result(timeout=120)

    return hold


def one_waits_and_one_is_done(connection: Connection, planned: Plan) -> bool:
    waiting = connection.execute(WAITING_WRITERS.format(planned.batch_id)).fetchone()
    done = next_offsets(connection, planned) == [100, 0]
    return waiting == (1,) and done


def test_a_server_that_dies_after_a_commit_loses_nothing_and_repeats_nothing(
    stack: LocalStack, server: ConnectServer, plan: Planner, connection: Connection, held_back: Any
) -> None:
    """Until it runs again, each attempt fails with what to do."""
    planned = plan()
    first, second = held_back(planned, stack.spark_connect.process.kill)
    assert (first.error, first.created.created) == (None, 100)
    assert second.error.startswith("The connection to the Spark Connect server was lost")
    assert second.error.endswith("[WO-SPARK-SERVER]")
    assert next_offsets(connection, planned) == [100, 0]
    assert row(connection, planned.trigger, 1).last_error == second.error
    (refused,) = (outcome.error or "" for outcome in attempted(stack, server, planned))
    assert refused.startswith("The Spark Connect server localhost:")
    assert "nothing was committed. Start it with `workorders spark serve`" in refused
    assert refused.endswith("[WO-SPARK-SERVER]")
    stack.start_spark_connect()
    assert [outcome.error for outcome in attempted(stack, server, planned)] == [None]
    assert next_offsets(connection, planned) == [100, 100]
    assert created(stack, planned) == [200, 200]


def test_a_silent_server_is_given_up_and_the_ledger_tells_what_it_committed(
    stack: LocalStack,
    server: ConnectServer,
    plan: Planner,
    connection: Connection,
    held_back: Any,
    *,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spark_connect, "SILENCE_SECONDS", 15.0)
    monkeypatch.setattr(spark_connect, "_PROBE_SECONDS", 0.5)
    planned = plan()

    def stop_the_jvm() -> None:
        """Its Python workers continue, commit, and find no client to tell."""
        (jvm,) = psutil.Process(stack.spark_connect.process.pid).children()
        jvm.send_signal(signal.SIGSTOP)

    outcomes = held_back(planned, stop_the_jvm)
    assert [(outcome.error, outcome.created.created) for outcome in outcomes] == [(None, 100), (None, 100)]
    assert next_offsets(connection, planned) == [100, 100]
    assert created(stack, planned) == [200, 200]


def test_a_wrong_token_is_refused(stack: LocalStack, server: ConnectServer, plan: Planner) -> None:
    outcomes = attempted(stack, address(stack, token="wrong"), plan())
    assert all("[WO-SPARK-SERVER]" in (outcome.error or "") for outcome in outcomes)
    assert not any("wrong" in (outcome.error or "") for outcome in outcomes)


def test_workers_with_another_package_touch_nothing(
    stack: LocalStack, server: ConnectServer, plan: Planner, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "PartitionIngest", partial(PartitionIngest, package="0.0.9 (another)"))
    planned = plan()
    outcomes = attempted(stack, server, planned)
    assert all("and this task has 0.0.9 (another); nothing was committed there" in (o.error or "") for o in outcomes)
    assert next_offsets(connection, planned) == [0, 0]


def test_a_setting_that_is_none_of_a_session_is_refused_before_anything_is_read(
    stack: LocalStack, server: ConnectServer, plan: Planner, connection: Connection
) -> None:
    planned = plan()
    outcomes = attempted(stack, server, planned, conf={"spark.executor.memory": "1g"})
    assert all("spark.executor.memory cannot be set for a session" in (outcome.error or "") for outcome in outcomes)
    assert next_offsets(connection, planned) == [0, 0]


def test_a_large_batch_enters_another_scheduler_pool_than_small_ones(stack: LocalStack, server: ConnectServer) -> None:
    with ConnectSession(server, conf={}) as session:
        for offsets, pool in ((1, "few_messages"), (FEW_OFFSETS + 1, "many_messages"), (FEW_OFFSETS, "few_messages")):
            assert session.open(offsets).conf.get("spark.scheduler.pool") == pool


def test_an_attempt_leaves_no_thread_behind(stack: LocalStack, server: ConnectServer, plan: Planner) -> None:
    outcomes = attempted(stack, server, plan())
    assert [outcome.error for outcome in outcomes] == [None, None]
    assert wait_until(
        lambda: "spark-connect-watchdog" not in {thread.name for thread in threading.enumerate()}, seconds=30
    )


def test_the_servers_log_has_no_secret_of_the_batch(stack: LocalStack, server: ConnectServer, plan: Planner) -> None:
    attempted(stack, server, plan())
    log = stack.spark_connect.process.log.read_text()
    password = psycopg.conninfo.conninfo_to_dict(stack.database_url).get("password")
    assert password
    assert str(password) not in log
    assert stack.spark_connect.token not in log


@pytest.mark.parametrize("changes", [{}, {"token": "secret"}, {"use_ssl": True}], ids=json.dumps)
def test_another_machine_needs_tls_and_a_token(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="cross the network in plain text"):
        ConnectServer(name="warm", host="spark.example.com", **changes)
