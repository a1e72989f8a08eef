"""The tasks of a trigger's two DAGs, each as a process: `python -m faults.role plan|ingest|wait|commit ...`.

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
from workorders.kafka.ingest.ingest_attempt import ingest_attempt
from workorders.kafka.ledger import batches
from workorders.kafka.ledger import positions as ledger
from workorders.kafka.planning.planner import plan_batch

ANSWER = "answer: "
ON_CLUSTER = "FAULTS_SPARK_CLUSTER"
"""Variable with the master of a cluster and the settings of the application, as JSON."""


def plan(connections: JobSecrets, definition: KafkaTriggerDefinition) -> int:
    """Plan as `PlanBatchOperator` does, and answer with the batches that no ingest was started for."""
    cluster = KafkaAdmin(client_settings(connections.kafka))
    with connect(connections.database_url, application_name="workorders plan") as database:
        planned = run(plan_batch(database, cluster, definition))
        waiting = [batch.id for batch in batches.list_unfinished(database, definition.name) if not batch.dispatched]
    print(f"{ANSWER}{json.dumps({'planned': planned.batch_id, 'waiting': waiting})}", flush=True)
    return 0


def ingest(connections: JobSecrets, batch_id: int) -> int:
    """Make one attempt at a batch as `CreateWorkOrdersOperator` does: a check, then Spark."""
    with ingest_attempt(connections, batch_id, application_name="workorders check") as attempt:
        attempt.require_own(batches.load(attempt.database, batch_id).trigger.name)
        attempt.take(None)
        if not attempt.has_work(is_retry=True):
            return 0
        attempt.check()
        code = spark(batch_id, attempt.epoch)
        attempt.settle()
    return code


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


_OF_A_BATCH = {"ingest": ingest, "wait": wait, "commit": commit}


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
