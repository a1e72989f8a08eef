"""The tasks of a trigger's two DAGs, each as a process: `python -m faults.role plan|ingest|take|wait|commit ...`.

They call what Airflow's operators call, in the same order, without Airflow.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import psycopg

from support.attempt_on_server import ON_SERVER
from support.spark_submit import submit_command
from workorders.core.exceptions import WorkOrdersError
from workorders.core.postgres.connection import connect
from workorders.kafka.client.admin import KafkaAdmin, run
from workorders.kafka.client.secrets import JobSecrets
from workorders.kafka.client.settings import client_settings
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.ingest.preflight import preflight
from workorders.kafka.ledger import batches, stalls
from workorders.kafka.ledger import positions as ledger
from workorders.kafka.ledger.attempt_lock import attempt_lock
from workorders.kafka.planning.planner import plan_batch

ANSWER = "answer: "
ON_CLUSTER = "FAULTS_SPARK_CLUSTER"
"""Variable with the master of a cluster and the settings of the application, as JSON."""
FEW = 30
"""Messages of a batch that is taken."""
LONG_SECONDS = 3600.0
"""Longer than any fault: no stall is worth an alert."""


def plan(connections: JobSecrets, definition: KafkaTriggerDefinition) -> int:
    """Plan as `PlanBatchOperator` does, and answer with the batches that no ingest was started for."""
    cluster = KafkaAdmin(client_settings(connections.kafka))
    with connect(connections.database_url, application_name="workorders plan") as database:
        planned = run(plan_batch(database, cluster, definition))
        waiting = [batch.id for batch in batches.unfinished(database, definition.name) if not batch.handed_over]
        waiting += batches.finished_without_run(database, definition.name)
    print(f"{ANSWER}{json.dumps({'planned': planned.batch_id, 'waiting': waiting})}", flush=True)
    return 0


def ingest(connections: JobSecrets, batch_id: int) -> int:
    """Make one attempt in the batch's own run, as `CreateWorkOrdersOperator` does."""
    with connect(connections.database_url, autocommit=True, application_name="workorders check") as database:
        batches.mark_handed_over(database, [batch_id])
    return attempt(connections, batch_id)


def take(connections: JobSecrets, own: int) -> int:
    """Take the next batch, a small one, as the task of a batch on a running Spark does after its own."""
    cluster = KafkaAdmin(client_settings(connections.kafka))
    with (
        attempt_lock(connections.database_url, own),
        connect(connections.database_url, autocommit=True, application_name="workorders plan") as database,
    ):
        definition = KafkaTriggerDefinition.model_validate(batches.load(database, own).definition)
        small = definition.model_copy(update={"max_messages": FEW})
        taken = run(plan_batch(database, cluster, small, taken_by=own)).batch_id
        if taken is None or attempt(connections, taken):
            return 1
        batches.mark_handed_over(database, [taken])  # instead of the start of its run
    return 0


def attempt(connections: JobSecrets, batch_id: int) -> int:
    """Make one attempt at a batch: a check, then Spark."""
    with connect(connections.database_url, autocommit=True, application_name="workorders check") as database:
        before = batches.load(database, batch_id)
        epoch = ledger.take_epoch(database, batch_id)
        batch = batches.load(database, batch_id)
        if (before.unfinished or batch.supersessions) and not batch.unfinished:
            return 0  # a decision has left nothing to do, or an attempt that died before it moved the ledger
        prepared = preflight(connections.kafka, batch, epoch)
        if not prepared.attempts:
            refusals = {range_: str(error) for range_, error in prepared.unreadable.items()}
            stalls.record(database, batch, epoch, refusals)
            print("\n".join(refusals.values()), flush=True)
            return 1
    return spark(batch_id, epoch)


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


def wait(connections: JobSecrets, batch_id: int) -> int:
    """Wait for the next try of a stalled batch as the triggerer does, and end where it wakes a worker."""
    # The other roles need no Airflow, whose import takes seconds.
    from workorders.kafka.airflow.stalled_batch import StalledBatchTrigger

    os.environ["AIRFLOW_CONN_WORKORDERS_DB"] = connections.database_url
    os.environ["AIRFLOW_CONN_KAFKA_DEFAULT"] = json.dumps({"conn_type": "kafka", "extra": dict(connections.kafka)})
    with connect(connections.database_url, application_name="workorders check") as database:
        name = batches.load(database, batch_id).trigger.name
    trigger = StalledBatchTrigger(
        trigger_name=name,
        batch_id=batch_id,
        error="A worker's try failed.",
        delay=0.0,
        alert_after=LONG_SECONDS,
        kafka_connection="kafka_default",
        database_connection="workorders_db",
    )

    async def woken() -> object:
        return (await anext(aiter(trigger.run()))).payload

    print(asyncio.run(woken()), flush=True)
    return 0


def commit(connections: JobSecrets, batch_id: int) -> int:
    """Commit the ledger's positions to the group as `CommitOffsetsOperator` does."""
    cluster = KafkaAdmin(client_settings(connections.kafka))
    with connect(connections.database_url, application_name="workorders commit") as database:
        batch = batches.load(database, batch_id)
        ledger.lock_group_commits(database, batch.trigger.id)
        positions = ledger.positions_of_batch(database, batch.id)
        group = KafkaTriggerDefinition.model_validate(batch.definition).group
        run(cluster.commit(group, positions))
    return 0


_OF_A_BATCH = {"ingest": ingest, "take": take, "wait": wait, "commit": commit}


def main() -> int:
    """Play one role; 1 with a sentence when it could not be done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", choices=["plan", *_OF_A_BATCH])
    parser.add_argument("of", help="the trigger's definition as JSON, or the number of a batch")
    given = parser.parse_args()
    connections = JobSecrets.from_environment()
    try:
        if given.role == "plan":
            return plan(connections, KafkaTriggerDefinition.model_validate_json(given.of))
        return _OF_A_BATCH[given.role](connections, int(given.of))
    except (WorkOrdersError, psycopg.Error) as error:
        print(" ".join(str(error).split()), flush=True)
        return 1


if __name__ == "__main__":
    sys.exit(main())
