"""The tasks of a trigger's, a workflow's, and an outbox's DAGs, each as a process: `python -m faults.role ROLE OF`.

They call what Airflow's operators call, in the same order, without Airflow.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from support.attempt_on_server import ON_SERVER
from support.spark_submit import submit_command
from workorders.core import workflows
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.exceptions import WorkOrdersError
from workorders.core.postgres.connection import connect, fetch_row
from workorders.core.runs import lifecycle
from workorders.core.worker.worker import Worker
from workorders.kafka.client.admin import KafkaAdmin, run
from workorders.kafka.client.secrets import JobSecrets
from workorders.kafka.client.settings import client_settings
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.ingest.ingest_attempt import IngestAttempt, ingest_attempt
from workorders.kafka.ledger import batches
from workorders.kafka.ledger import positions as ledger
from workorders.kafka.planning.planner import plan_batch
from workorders.outbox.enqueue import enqueue_published
from workorders.outbox.relay.definition import RelayDefinition
from workorders.outbox.relay.relay import run_relay

ANSWER = "answer: "
ON_CLUSTER = "FAULTS_SPARK_CLUSTER"
"""Variable with the master of a cluster and the settings of the application, as JSON."""
GROWS_ON = "FAULTS_GROWS_ON"
"""Variable that lets a batch grow as long as there are messages."""
USER_DATABASE = "FAULTS_USER_DATABASE"
"""Variable with the connection string of the database in which functions write."""
_RANGES = "SELECT count(*) FROM workorders.kafka_ranges WHERE batch_id = %(batch_id)s"
_UNTRIED = "SELECT id FROM workorders.kafka_batches WHERE epoch = 0 AND id = ANY (%(batch_ids)s) ORDER BY id"
_LOOK_SECONDS = 0.2
_LINGER_SECONDS = 10
_SLICE_SECONDS = 60


def planned(connections: JobSecrets, definition: KafkaTriggerDefinition) -> tuple[int | None, list[int]]:
    """Plan as `PlanBatchOperator` does; return the batch, and the batches that no ingest was started for."""
    cluster = KafkaAdmin(client_settings(connections.kafka))
    with connect(connections.database_url, application_name="workorders plan") as database:
        found = run(plan_batch(database, cluster, definition))
        unfinished = batches.list_unfinished(database, definition.name)
        waiting = [batch_id for (batch_id,) in database.execute(_UNTRIED, {"batch_ids": unfinished})]
    return found.batch_id, waiting


def plan(connections: JobSecrets, definition: KafkaTriggerDefinition) -> int:
    """Plan, and print the answer."""
    batch_id, waiting = planned(connections, definition)
    print(f"{ANSWER}{json.dumps({'planned': batch_id, 'waiting': waiting})}", flush=True)
    return 0


def ingest(connections: JobSecrets, batch_id: int) -> int:
    """Make one attempt at a batch, as `CreateWorkOrdersOperator` does."""
    with ingest_attempt(connections, batch_id, application_name="workorders check") as attempt:
        stored = KafkaTriggerDefinition.model_validate(batches.load(attempt.database, batch_id).definition)
        if not attempt.begin(stored, is_retry=True, report=print):
            return 0
        with growing_once(attempt):
            code = spark(batch_id, attempt.epoch)
        attempt.settle("The Spark application failed." if code else "")
    return 0


@contextmanager
def growing_once(attempt: IngestAttempt) -> Iterator[None]:
    """Close the lease once the batch has grown, as the operator does when a Dag is paused, unless `GROWS_ON` is set."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_LOOK_SECONDS):
            with suppress(psycopg.Error), connect(attempt.secrets.database_url, autocommit=True) as database:
                if fetch_row(database, _RANGES, {"batch_id": attempt.batch_id})[0] > len(attempt.batch.ranges):
                    attempt.close_lease()
                    return

    thread = threading.Thread(target=watch, daemon=True)
    if GROWS_ON not in os.environ:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        if thread.is_alive():
            thread.join()


def spark(batch_id: int, epoch: int) -> int:
    """Submit the application, or run the batch on the server that the variable names."""
    arguments = ["--batch", str(batch_id), "--epoch", str(epoch)]
    if ON_SERVER in os.environ:
        command = [sys.executable, "-m", "support.attempt_on_server", *arguments]
    else:
        application = Path(os.environ["WORKORDERS_SPARK_APPS"]) / "create_work_orders.py"
        cluster = json.loads(os.environ.get(ON_CLUSTER, "{}"))
        command = submit_command(os.environ["WORKORDERS_SPARK_JARS"], application, arguments, **cluster)
    return subprocess.run(command, check=False).returncode


def commit(connections: JobSecrets, batch_id: int) -> int:
    """Commit the ledger's positions to the group as `CommitOffsetsOperator` does."""
    cluster = KafkaAdmin(client_settings(connections.kafka))
    with connect(connections.database_url, application_name="workorders commit") as database:
        batch = batches.load(database, batch_id)
        ledger.lock_group_commits(database, batch.trigger.id)
        positions = ledger.positions_of_batch(database, batch.id)
        group = KafkaTriggerDefinition.model_validate(batch.definition).consumer_group
        run(cluster.commit(group, positions))
    return 0


def execute(connections: JobSecrets, definition: WorkflowDefinition) -> int:
    """Execute runs as `ExecuteRunsOperator` does."""
    with connect(connections.database_url, application_name="workorders execute") as database:
        workflow = workflows.register(database, definition)
        database.commit()
        lifecycle.recover_lost(database, workflow)
    worker = Worker(
        workflow,
        database_url=connections.database_url,
        enqueue=enqueue_published,
        user_database=os.environ[USER_DATABASE],
    )
    worker.work()
    return 0


def relay(connections: JobSecrets, definition: RelayDefinition) -> int:
    """Relay the outbox's only shard as the relay's operator does."""
    times = {"linger": _LINGER_SECONDS, "max_task_duration": _SLICE_SECONDS}
    run_relay(connections, definition.model_copy(update=times))
    return 0


_OF_A_BATCH = {"ingest": ingest, "commit": commit}


def main() -> int:
    """Play one role; 1 with a sentence when it could not be done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", choices=["plan", "execute", "relay", *_OF_A_BATCH])
    parser.add_argument("of", help="a definition as JSON, or the number of a batch")
    given = parser.parse_args()
    connections = JobSecrets.from_environment()
    try:
        if given.role == "plan":
            return plan(connections, KafkaTriggerDefinition.model_validate_json(given.of))
        if given.role == "execute":
            return execute(connections, WorkflowDefinition.model_validate_json(given.of))
        if given.role == "relay":
            return relay(connections, RelayDefinition.model_validate_json(given.of))
        return _OF_A_BATCH[given.role](connections, int(given.of))
    except (WorkOrdersError, psycopg.Error) as error:
        print(" ".join(str(error).split()), flush=True)
        return 1


if __name__ == "__main__":
    sys.exit(main())
