"""`make up POOLER=transaction` and `make up POOLER=session`: PgBouncer is the only way to Postgres."""

from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from local_stack.pgbouncer import Pooling
from local_stack.stack import LocalStack
from support.airflow_api import AirflowApi
from support.consumed import consumed
from support.debian import require_debian
from support.definition_files import write_definitions
from support.eventually import eventually
from support.flow import Flow
from support.observed_trigger import INVALID, ObservedTrigger, some_events
from support.topics import Topics
from workorders.core.postgres.connection import connect
from workorders.outbox import OutboxMessage, enqueue

pytestmark = pytest.mark.long

SECONDS = 420.0
NAME = "pooled"
TOPIC = f"scenario.{NAME}"
TRIGGER = {"name": NAME, "type": "kafka", "workflow": "echo", "topics": [TOPIC]}
WORKFLOW = {"name": "echo", "callable": "support.run_functions:echo", "concurrency": 2}


@pytest.mark.parametrize("pooling", ["transaction", "session"])
def test_messages_runs_and_the_outbox_work_through_pgbouncer(tmp_path: Path, pooling: Pooling) -> None:
    require_debian("pgbouncer")
    with LocalStack(
        airflow=True,
        triggers_folder=write_definitions(tmp_path / "triggers", TRIGGER),
        workflows_folder=write_definitions(tmp_path / "workflows", WORKFLOW),
        pooler=pooling,
        name=f"pgbouncer-{pooling}",
    ) as stack:
        stack.keep_logs = True
        api = AirflowApi(stack.airflow_url)
        trigger = ObservedTrigger.on_stack(stack, NAME, TOPIC)
        trigger.create_topic(3)
        places = trigger.produce(some_events(300, 3))
        places += trigger.produce((0, value) for value in INVALID.values())
        Flow(api, trigger).until_ingested(places)
        assert set(trigger.rejections().values()) == set(INVALID.items())
        with connect(stack.client_url) as connection:
            topic = Topics(stack.kafka_settings).create(f"scenario.{uuid4().hex[:8]}", partitions=2)
            enqueue(connection, [OutboxMessage(topic=topic, key=f"k{n % 5}", value=str(n)) for n in range(50)])
            connection.commit()

        def succeeded() -> bool:
            query = "SELECT count(*) FROM workorders.work_orders WHERE state = 'success'"
            with psycopg.connect(stack.database_url) as direct:
                return direct.execute(query).fetchone() == (300,)

        eventually(succeeded, seconds=SECONDS, what="300 runs that succeed", every=1)
        eventually(
            lambda: len(consumed(stack.kafka_settings, topic)) == 50, seconds=SECONDS, what="50 messages", every=1
        )
        api.close()
        stack.keep_logs = False
