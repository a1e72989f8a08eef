"""What the task of a batch does; the application that it would submit is only noted, except in one test."""

import errno
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, ClassVar

import psycopg
import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.bases.operator import ExecutorSafeguard
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred
from airflow.sdk.execution_time.context import OutletEventAccessors
from structlog.testing import capture_logs

from local_stack.ports import free_port
from local_stack.stack import LocalStack
from support import attempt_on_server
from support.dag_runs import DagRuns
from support.definitions import define
from support.in_process_trigger import TEN, InProcessTrigger, decided, kept
from support.ingesting import everything
from support.runs import keeping
from support.topics import Topics
from support.work_orders import remove
from workorders import dag_ids
from workorders.airflow.assets import outlet, work_orders_asset
from workorders.airflow.retries import UNLIMITED_RETRIES, unlimited_retries
from workorders.core import workflows
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.postgres import connection as connections
from workorders.core.postgres.connection import Connection, connect
from workorders.kafka.airflow import create_work_orders, ingest_runs, spark_submission
from workorders.kafka.airflow.commit_offsets import CommitOffsetsOperator
from workorders.kafka.airflow.create_work_orders import CreateWorkOrdersOperator
from workorders.kafka.client import admin
from workorders.kafka.client.admin import KafkaAdmin
from workorders.kafka.client.secrets import JobSecrets
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.exceptions import StalledError
from workorders.kafka.ingest.ingest_attempt import IngestAttempt
from workorders.kafka.ledger import batches, positions, stalls, virtual_partitions
from workorders.kafka.ledger.batches import Batch
from workorders.kafka.recovery.decisions import DecisionKind
from workorders.kafka.recovery.resolution import DecisionRequest
from workorders.kafka.spark import driver

pytestmark = pytest.mark.integration


class Task:
    """The task of one batch, whose Spark application is only noted."""

    def __init__(
        self,
        stack: LocalStack,
        name: str,
        batch_id: int,
        monkeypatch: pytest.MonkeyPatch,
        *,
        application: Callable[[], object] | None = None,
        variables: Mapping[str, str] | None = None,
        definition: KafkaTriggerDefinition | None = None,
        listener_dag_id: str | None = None,
        **fields: Any,
    ) -> None:
        """Describe the task of a trigger with these fields, or this definition.

        The application is what to do instead of it; without one it is only noted, and with variables it is really
        submitted.
        """
        self._operator = CreateWorkOrdersOperator(
            task_id="create",
            definition=definition or define(name, **fields),
            batch_id=batch_id,
            listener_dag_id=listener_dag_id,
            **unlimited_retries(),
        )
        #: Of the last run.
        self.outlet_events = OutletEventAccessors()
        self.submitted = 0
        secrets = JobSecrets(stack.database_url, stack.kafka_settings)
        monkeypatch.setattr(create_work_orders, "job_secrets", lambda _: secrets)
        for variable, value in (variables or {}).items():
            monkeypatch.setenv(variable, value)
        if variables is not None:
            return
        if application is None:
            monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[2]"}))
            monkeypatch.setattr(self._operator, "run_engine", self._note)
            monkeypatch.setattr(IngestAttempt, "settle", lambda *_: None)
        else:
            monkeypatch.setattr(SparkSubmitOperator, "execute", lambda *_: application())

    def run(self, *, tries: int = 1, clears: int = 0) -> None:
        """Run the task's next try, after some tries and clears."""
        self._operator.execute(self._context(tries, clears))

    def resume(self, *, tries: int) -> None:
        """Continue the task on a worker, after it was deferred in one of its tries."""
        self._operator.execute_complete(self._context(tries, 0), "The next try is due, and a worker makes it.")

    def _context(self, tries: int, clears: int) -> Any:
        self.outlet_events = OutletEventAccessors()
        ti = SimpleNamespace(try_number=clears + tries, max_tries=clears + UNLIMITED_RETRIES, dag_id="an_ingest")
        return {"ti": ti, "outlet_events": self.outlet_events}

    def stop(self) -> None:
        """Stop the task, as Airflow does."""
        self._operator.on_kill()

    @property
    def arguments(self) -> list[str]:
        """What the application was given."""
        return [*(self._operator.application_args or ())]

    def _note(self, *_: object) -> None:
        self.submitted += 1


@pytest.fixture
def half_stalled(stack: LocalStack, topics: Topics, name: str) -> int:
    """The number of a batch of which partition 0 is ingested, and partition 1 stalls for retention ate its messages."""
    topics.create(name, partitions=2)
    trigger = InProcessTrigger(stack, name)
    trigger.until_idle()
    for number in range(2):
        topics.produce(name, TEN, partition=number)
    topics.delete_before(name, 10, partition=1)
    topics.produce(name, TEN, partition=1)
    batch_id = trigger.batch()
    assert len(trigger.attempt(batch_id).unreadable) == 1
    return batch_id


def test_a_retry_has_nothing_to_do_once_an_operator_has_decided_and_a_clear_replays_the_rest(
    stack: LocalStack, cluster: KafkaAdmin, half_stalled: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = Task(stack, name, half_stalled, monkeypatch)
    with pytest.raises(StalledError, match="were deleted by retention"):
        task.run()
    decided(stack, cluster, DecisionRequest(DecisionKind.SKIP_LOST, name, name))
    task.run(tries=2)
    assert task.submitted == 0
    (event,) = task.outlet_events[outlet(name)].asset_alias_events
    assert event.extra == {"batch_id": half_stalled, "created": 10, "rejected": 0}
    task.run(clears=1)
    assert task.submitted == 1


def test_a_stall_that_lasts_is_deferred_with_its_error_and_continues_after_a_decision(
    stack: LocalStack, cluster: KafkaAdmin, half_stalled: int, *, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = Task(stack, name, half_stalled, monkeypatch)
    with pytest.raises(StalledError, match=r"Next try in 32 s\.$"):
        task.run(tries=6)
    with capture_logs() as logged, pytest.raises(TaskDeferred) as deferred:
        task.run(tries=7)
    errors = " ".join(entry["event"] for entry in logged if entry["log_level"] == "error")
    assert errors.startswith(f"Trigger {name}, batch {half_stalled}: {name} 1 [0, 20): offsets [0, 10) were deleted")
    assert errors.endswith("Next try in 60 s.")
    assert deferred.value.method_name == "execute_complete"
    assert deferred.value.timeout is None
    assert deferred.value.trigger.serialize() == (
        "workorders.kafka.airflow.stalled_batch.StalledBatchTrigger",
        {
            "trigger_name": name,
            "batch_id": half_stalled,
            "error": errors,
            "delay": 60,
            "kafka_connection": "kafka_default",
            "database_connection": "workorders_db",
        },
    )
    with pytest.raises(TaskDeferred):
        task.resume(tries=7)
    decided(stack, cluster, DecisionRequest(DecisionKind.SKIP_LOST, name, name))
    task.resume(tries=7)
    assert task.submitted == 0


def test_a_retry_uses_the_current_file_although_the_stalled_trigger_plans_no_batch(
    stack: LocalStack, connection: Connection, topics: Topics, *, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics.create(name)
    topics.produce(name, [None] * 3)
    trigger = InProcessTrigger(stack, name)
    batch_id = trigger.batch()
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[1]"}')

    def retry(definition: KafkaTriggerDefinition) -> None:
        def ingest() -> None:
            trigger.ingest_messages(batch_id)

        Task(stack, name, batch_id, monkeypatch, application=ingest, definition=definition).run(tries=2)

    wrong = define(name, workflow=f"{name}-in-order", virtual_partitions=2)
    in_order = {"name": wrong.workflow, "callable": "shop:ship", "ordering_key": "key"}
    workflows.register(connection, WorkflowDefinition.model_validate(in_order))
    connection.commit()
    with pytest.raises(StalledError, match=r"virtual_partitions: expected 1.*Nothing was committed.*Next try in"):
        retry(wrong)
    (stalled,) = positions.status(connection, name)
    assert (stalled.status, batches.load(connection, batch_id).trigger.workflow) == ("stalled", "admit")
    retry(define(name, tombstones="accept"))
    (range_,) = batches.load(connection, batch_id).finished
    assert (range_.created, range_.rejected) == (3, 0)


def test_a_task_that_continues_after_it_was_deferred_submits_without_a_warning(
    stack: LocalStack, planned: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow warns of an operator that is called from elsewhere than its task runner."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[1]"}')
    task = Task(stack, name, planned, monkeypatch, application=lambda: None)
    monkeypatch.setattr(SparkSubmitOperator, "execute", ExecutorSafeguard.decorator(lambda *_: None))  # type: ignore[no-untyped-call]
    with capture_logs() as logged, pytest.raises(StalledError):
        task.resume(tries=2)
    assert not [entry for entry in logged if "outside of the Task Runner" in entry["event"]]


def test_an_attempt_that_creates_work_orders_emits_one_asset_event_and_a_replay_none(
    stack: LocalStack, topics: Topics, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics.create(name)
    topics.produce(name, TEN)
    trigger = InProcessTrigger(stack, name)
    batch_id = trigger.batch()
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    task = Task(stack, name, batch_id, monkeypatch, application=lambda: trigger.attempt(batch_id))

    def events() -> list[tuple[str, Any]]:
        found = task.outlet_events[outlet(name)].asset_alias_events
        return [(event.dest_asset_key.name, event.extra) for event in found]

    task.run()
    created = {"batch_id": batch_id, "created": 10, "rejected": 0}
    assert events() == [(work_orders_asset(name).name, created)]
    task.run(clears=1)
    assert events() == []


def test_a_batch_that_was_superseded_whole_is_done_at_once_however_often_it_is_cleared(
    stack: LocalStack,
    connection: Connection,
    cluster: KafkaAdmin,
    topics: Topics,
    *,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topics.create(name)
    trigger = InProcessTrigger(stack, name)
    trigger.until_idle()
    topics.produce(name, TEN)
    topics.delete_before(name, 5)
    task = Task(stack, name, trigger.stalled_batch(), monkeypatch)
    decided(stack, cluster, DecisionRequest(DecisionKind.SKIP_LOST, name, name))
    task.run(tries=2)
    task.run(clears=1)
    assert task.submitted == 0


def test_a_batch_whose_virtual_partitions_are_all_stored_needs_no_spark(
    stack: LocalStack, connection: Connection, topics: Topics, *, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics.create(name)
    topics.produce(name, [b"{}"] * 2000)
    trigger = InProcessTrigger(stack, name, virtual_partitions=2)
    batch_id = trigger.batch()
    with monkeypatch.context() as crashed:  # each time after the commit, before the ledger moved
        crashed.setattr(virtual_partitions, "advance", lambda *_: None)
        trigger.attempt(batch_id)
    assert not batches.load(connection, batch_id).finished
    connection.commit()
    task = Task(stack, name, batch_id, monkeypatch, virtual_partitions=2)
    task.run(tries=2)
    assert task.submitted == 0
    assert batches.load(connection, batch_id).ranges[0].messages == 2000
    task.run(clears=1)
    assert task.submitted == 1


@pytest.fixture
def planned(stack: LocalStack, topics: Topics, name: str) -> int:
    """The number of a batch of two partitions."""
    topics.create(name, partitions=2)
    for number in range(2):
        topics.produce(name, TEN, partition=number)
    return InProcessTrigger(stack, name).batch()


@pytest.mark.long
def test_a_cluster_whose_python_lacks_the_package_gets_it_from_the_task_and_ingests(
    stack: LocalStack, connection: Connection, planned: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster takes authenticated and encrypted connections alone, which the application knows by itself."""
    stack.start_spark_cluster()
    assert subprocess.run([stack.spark_cluster.python, "-c", "import psycopg, pyarrow"], check=False).returncode == 0
    assert subprocess.run([stack.spark_cluster.python, "-c", "import workorders"], check=False).returncode == 1
    ran_before = stack.spark_cluster.applications()
    variables = {**stack.environment(), **stack.spark_cluster.variables}
    Task(stack, name, planned, monkeypatch, variables=variables).run()
    batch = batches.load(connection, planned)
    assert [(range_.created, range_.rejected) for range_ in batch.finished] == [(10, 0), (10, 0)]
    assert list(kept(connection, name).values()) == [list(range(10)), list(range(10))]
    assert len(stack.spark_cluster.applications() - ran_before) == 1


def test_a_spark_connect_server_that_does_not_run_stalls_the_batch_with_the_next_try(
    stack: LocalStack, connection: Connection, planned: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = Task(stack, name, planned, monkeypatch, application=lambda: pytest.fail("an application was submitted"))
    nothing = json.dumps({"conn_type": "spark_connect", "host": "localhost", "port": free_port()})
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", nothing)
    with pytest.raises(StalledError, match=r"Start it with `workorders spark serve`.*Next try in"):
        task.run()
    assert not batches.load(connection, planned).finished


def test_a_failed_application_is_tried_again_and_the_errors_of_its_ranges_are_shown(
    stack: LocalStack, planned: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[1]"}')
    task = Task(stack, name, planned, monkeypatch, application=lambda: fail(stack, planned))
    with pytest.raises(StalledError, match=r"Partition 0 failed\. Partition 1 failed\. Next try in 2 s\.$"):
        task.run(tries=2)


def test_an_application_that_ends_well_and_ingested_nothing_is_a_stall(
    stack: LocalStack, planned: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a cluster that loses the exit code of a driver."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[1]"}')
    task = Task(stack, name, planned, monkeypatch, application=lambda: None)
    with pytest.raises(StalledError, match="Next try in"):
        task.run()


@dataclass
class Elsewhere:
    """An engine of a user's own; the class has what the test lets it do."""

    connection_id: str
    submitted: ClassVar[list[tuple[str, int]]] = []
    ingest: ClassVar[Callable[[int], object]] = staticmethod(lambda _: None)

    def submit(self, batch: int, epoch: int) -> None:
        assert epoch > 0
        self.submitted.append((self.connection_id, batch))
        type(self).ingest(batch)


def test_an_engine_of_ones_own_submits_a_batch_and_the_ledger_tells_what_came_of_it(
    stack: LocalStack, connection: Connection, planned: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_submission, "import_module", lambda _: SimpleNamespace(Elsewhere=Elsewhere))
    task = Task(stack, name, planned, monkeypatch, variables={}, spark={"engine": "shop.engines.Elsewhere"})
    with pytest.raises(StalledError, match=r"attempt ended without recording an error.* Next try in"):
        task.run()

    def refuse(_: int) -> None:
        raise AirflowException("The quota is used up.")

    monkeypatch.setattr(Elsewhere, "ingest", staticmethod(refuse))
    with pytest.raises(StalledError, match="Next try in"):
        task.run(tries=2)

    def lose_the_database(_: int) -> None:
        raise psycopg.errors.LockNotAvailable("canceling statement due to lock timeout")

    monkeypatch.setattr(Elsewhere, "ingest", staticmethod(lose_the_database))
    with pytest.raises(
        StalledError, match=r"lock timeout\. \[WO-POSTGRES-\w+\] The ledger has what was committed; the next try takes"
    ):
        task.run(tries=3)
    monkeypatch.setattr(Elsewhere, "ingest", staticmethod(InProcessTrigger(stack, name).attempt))
    task.run(tries=4)
    assert [range_.created for range_ in batches.load(connection, planned).finished] == [10, 10]
    assert Elsewhere.submitted == [("spark_default", planned)] * 4


def test_a_task_that_is_stopped_lets_its_batch_grow_no_more(
    stack: LocalStack, connection: Connection, topics: Topics, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics.create(name)
    topics.produce(name, TEN)
    trigger = InProcessTrigger(stack, name, linger=60.0, spark={"engine": "shop.engines.Elsewhere"})
    task = Task(stack, name, trigger.batch(), monkeypatch, variables={}, definition=trigger.definition)
    is_open: list[bool] = []

    def look() -> None:
        is_open.append(batches.last_plan(connection, name).is_open)
        connection.rollback()

    def stopped(_: int) -> None:
        look()
        task.stop()
        look()

    monkeypatch.setattr(spark_submission, "import_module", lambda _: SimpleNamespace(Elsewhere=Elsewhere))
    monkeypatch.setattr(Elsewhere, "submitted", [])
    monkeypatch.setattr(Elsewhere, "ingest", staticmethod(stopped))
    with pytest.raises(StalledError):
        task.run()
    assert is_open == [True, False]


def fail(stack: LocalStack, batch_id: int) -> None:
    """Stall the partitions of a batch as its newest attempt does."""
    with connect(stack.database_url) as own:
        batch = batches.load(own, batch_id)
        found = own.execute("SELECT epoch FROM workorders.kafka_batches WHERE id = %s", (batch_id,)).fetchone()
        assert found is not None
        errors = {one.range: f"Partition {one.range.partition.partition} failed." for one in batch.ranges}
        stalls.record(own, batch, found[0], errors)
    raise AirflowException("Error code is: 1.")


def test_a_clear_of_a_batch_that_is_older_than_its_work_orders_are_kept_or_deleted_fails_once(
    stack: LocalStack, connection: Connection, topics: Topics, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics.create(name)
    trigger = InProcessTrigger(stack, name, workflow=name)
    trigger.until_idle()
    topics.produce(name, TEN)
    batch_id = trigger.batch()
    keeping(connection, name, delete_after="10d")
    connection.execute(
        "UPDATE workorders.kafka_batches SET planned_at = now() - interval '11 days' WHERE id = %s", (batch_id,)
    )
    connection.commit()
    task = Task(stack, name, batch_id, monkeypatch, workflow=name)
    task.run()
    assert task.submitted == 1
    trigger.attempt(batch_id)
    with pytest.raises(AirflowFailException, match=r"was not replayed, because .* \[WO-BATCH-EXPIRED\]$"):
        task.run(clears=1)
    assert task.submitted == 1
    assert not batches.delete_expired(connection, datetime.now(UTC) + timedelta(hours=2))
    connection.commit()
    with pytest.raises(AirflowFailException, match=r"nothing was done\. Retention may have deleted it"):
        task.run(clears=1)


def test_a_batch_of_another_trigger_is_refused_before_anything_is_done(
    stack: LocalStack, connection: Connection, planned: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user who may start the ingest runs of one trigger must not fence another one."""
    trigger = batches.load(connection, planned).trigger
    before = everything(connection, trigger)
    task = Task(stack, "another", planned, monkeypatch)
    heard = Heard()
    monkeypatch.setattr(create_work_orders, "claim_alerts", heard)
    with pytest.raises(AirflowFailException) as raised:
        task.run()
    assert str(raised.value) == (
        f"Batch {planned} belongs to trigger {name}, and this run to trigger another. Nothing was read or written for "
        f"the batch; clear its run in the ingest Dag of {name} instead. [WO-BATCH-FOREIGN]"
    )
    assert (task.submitted, heard.calls) == (0, 0)
    assert everything(connection, trigger) == before


class Heard:
    """Counts its calls."""

    calls = 0

    def __call__(self, *_: object) -> None:
        """Count."""
        self.calls += 1


@pytest.mark.parametrize(
    ("run_id", "batch"),
    [
        ("batch_18", 18),
        ("manual__2026-01-01", 5),
        ("batch_18b", 5),
        ("18", 5),
        ("batch_", 5),
        ("batch_\u0661\u0668", 5),
    ],
)
def test_a_run_that_is_named_by_a_batch_is_for_that_batch_whatever_its_configuration_contains(
    run_id: str, batch: int
) -> None:
    """A person started it by hand, and the dispatch of batch 18 finds its run there already."""
    assert (batch == 18) == (run_id == dag_ids.batch(18))
    create = CreateWorkOrdersOperator(task_id="create", definition=define("orders"))
    commit = CommitOffsetsOperator(task_id="commit", definition=define("orders"))
    for operator in (create, commit):
        operator.render_template_fields({"task": operator, "run_id": run_id, "params": {"batch_id": 5}})
        assert int(operator.batch_id) == batch


@dataclass
class Backlog:
    """Three full rounds of one partition and a message more, of which the first is planned; a second one is empty."""

    stack: LocalStack
    name: str
    airflow: DagRuns
    trigger: InProcessTrigger
    own: int
    monkeypatch: pytest.MonkeyPatch

    def task(self, **arguments: Any) -> Task:
        """Return the task of the batch, which uses the server."""
        arguments.setdefault("application", lambda: pytest.fail("an application was submitted"))
        return Task(
            self.stack,
            self.name,
            self.own,
            self.monkeypatch,
            definition=self.trigger.definition,
            listener_dag_id="a_listener",
            **arguments,
        )

    def ledger(self, connection: Connection, partition: int = 0) -> int:
        """Return the next offset of a partition."""
        connection.rollback()
        known = positions.positions(connection, self.name)
        return next(position.next_offset for of, position in known.items() if of.partition == partition)


@pytest.fixture
def backlog(stack: LocalStack, topics: Topics, name: str, monkeypatch: pytest.MonkeyPatch) -> Backlog:
    """Return a backlog whose trigger uses a running server."""
    stack.start_spark_connect()
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", stack.spark_connect.airflow_connection)
    topics.create(name, 2)
    topics.produce(name, [*TEN, *TEN, *TEN, b"{}"])
    trigger = InProcessTrigger(stack, name, max_messages=10, linger=1.0)
    return Backlog(stack, name, DagRuns.in_place(monkeypatch), trigger, trigger.batch(), monkeypatch)


def test_a_batch_grows_over_the_backlog_and_a_clear_of_its_task_replays_all_of_it(
    connection: Connection, backlog: Backlog
) -> None:
    task = backlog.task()
    task.run()
    batch = batches.load(connection, backlog.own)
    assert (batch.label, batch.finished[0].created) == (f"{backlog.name} 0 [0, 31)", 31)
    assert (backlog.ledger(connection), backlog.airflow.confs) == (31, {})
    assert [found.id for found in batches.summaries(connection, backlog.name)] == [backlog.own]
    (event,) = task.outlet_events[outlet(backlog.name)].asset_alias_events
    assert event.extra == {"batch_id": backlog.own, "created": 31, "rejected": 0}
    remove(connection, batch.trigger, [4, 30])
    connection.commit()
    before = everything(connection, batch.trigger)
    backlog.trigger.stack = backlog.stack
    task.run(clears=1)
    after = everything(connection, batch.trigger)
    for tables in (before, after):
        del tables["kafka_batches"]  # a replay has its own epoch
        del tables["work_orders"]
    assert after == before
    assert list(kept(connection, backlog.name).values()) == [list(range(31))]


@pytest.mark.parametrize("is_submitted", [False, True])
def test_a_healthy_batch_is_loaded_once_before_and_once_after_its_engine_on_two_connections_and_one_client_of_kafka(
    backlog: Backlog, *, is_submitted: bool
) -> None:
    """However often it grows; the partitions' connections are those of Spark's own processes."""
    opened, loaded, clients = Counter[str](), Counter[int](), Counter[str]()
    connection_string, load, new_client = connections.connection_string, batches.load, KafkaAdmin.__init__

    def counted_string(url: str, application_name: str, *rest: Any) -> str:
        opened[application_name] += 1
        return connection_string(url, application_name, *rest)

    def counted_load(database: Connection, batch_id: int) -> Batch:
        loaded[batch_id] += 1
        return load(database, batch_id)

    def counted_client(self: KafkaAdmin, settings: Mapping[str, Any], **options: Any) -> None:
        clients[settings["bootstrap.servers"]] += 1
        new_client(self, settings, **options)

    def submitted() -> None:
        patch.setattr(sys, "argv", ["driver", *task.arguments])
        assert attempt_on_server.main() == 0

    task, patch = backlog.task(application=submitted), backlog.monkeypatch
    patch.setattr(connections, "connection_string", counted_string)
    patch.setattr(batches, "load", counted_load)
    patch.setattr(KafkaAdmin, "__init__", counted_client)
    admin._shared_admin.cache_clear()
    if is_submitted:
        patch.setenv(attempt_on_server.ON_SERVER, backlog.stack.spark_connect.airflow_connection)
        patch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    task.run()
    assert opened == {"workorders check": 1} | ({"workorders driver": 1} if is_submitted else {})
    assert loaded == {backlog.own: 3 if is_submitted else 2}
    assert clients == {backlog.stack.kafka_settings["bootstrap.servers"]: 1}


def test_a_disk_that_is_full_after_a_committed_round_is_not_said_to_have_kept_the_batch_from_its_server(
    connection: Connection, backlog: Backlog
) -> None:
    def full(*_: object, **__: object) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    backlog.monkeypatch.setattr(driver, "outcome_table", full)
    with pytest.raises(StalledError, match=f": The Spark application failed: .*{os.strerror(errno.ENOSPC)}"):
        backlog.task().run()
    assert backlog.ledger(connection) == 10


@pytest.mark.timeout(180)  # far less than the hour for which it would wait
@pytest.mark.parametrize("dag_id", ["a_listener", "an_ingest"])
def test_a_batch_does_not_grow_once_one_of_its_dags_is_paused(
    connection: Connection, backlog: Backlog, topics: Topics, dag_id: str
) -> None:
    """It waits for messages for an hour, unless it notices."""
    backlog.monkeypatch.setattr(ingest_runs, "WATCH_SECONDS", 0.05)
    backlog.trigger.definition = backlog.trigger.definition.model_copy(update={"linger": 3600.0})
    backlog.airflow.paused = {dag_id}
    backlog.task().run()
    assert backlog.ledger(connection) < 31
    connection.rollback()
    assert batches.last_plan(connection, backlog.name).is_open is False


def test_a_range_that_fails_while_the_batch_grows_ends_its_growth_and_the_retry_of_its_task_takes_it(
    connection: Connection, backlog: Backlog, topics: Topics
) -> None:
    topics.produce(backlog.name, [b"no JSON"] * 20)
    topics.produce(backlog.name, [*TEN] * 20, partition=1)
    changed = {"max_messages": 20, "max_rejected_share": 0.5}
    backlog.trigger.definition = backlog.trigger.definition.model_copy(update=changed)
    task = backlog.task()
    with pytest.raises(StalledError, match=rf"{backlog.name} 0 \[\d+, \d+\).* were rejected"):
        task.run()
    (stalled,) = (found for found in positions.status(connection, backlog.name) if found.status == "stalled")
    assert (stalled.partition, stalled.batch_id) == (0, backlog.own)
    assert 31 <= backlog.ledger(connection) < 51
    assert backlog.ledger(connection, 1) < 200  # the rounds that would follow
    connection.rollback()
    assert batches.last_plan(connection, backlog.name).is_open is False
    connection.rollback()
    with pytest.raises(StalledError, match="were rejected"):
        task.run(tries=2)
