"""The whole path of messages with one login: wait, plan, ingest by Spark, commit the group, show, and relay."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from local_stack.stack import LocalStack
from support.attempting import ingest_batch
from support.command import Command
from support.consumed import consumed
from support.definitions import define
from support.ingesting import finish
from support.outbox import new_outbox
from support.topics import Topics
from support.tries import a_try
from workorders.core.creation.work_orders import Created
from workorders.core.postgres.connection import Connection, connect
from workorders.kafka.airflow.commit_offsets import CommitOffsetsOperator
from workorders.kafka.airflow.triggers import NewMessagesTrigger
from workorders.kafka.client.admin import KafkaAdmin, run
from workorders.kafka.client.secrets import JobSecrets
from workorders.kafka.client.settings import client_settings
from workorders.kafka.ingest.attempt import RangeOutcome
from workorders.kafka.ledger import batches
from workorders.kafka.ledger.positions import positions
from workorders.kafka.planning.planner import plan_batch
from workorders.kafka.spark.connect import ConnectServer, ConnectSession
from workorders.outbox import OutboxMessage
from workorders.outbox.relay.relay import run_relay

MESSAGES = [b'{"n":%d}' % n for n in range(5)]


@dataclass(frozen=True)
class LoginPath:
    """What each client does with the settings of one Kafka connection."""

    stack: LocalStack
    settings: Mapping[str, Any]
    name: str
    topics: Topics
    """Of a user with every right."""

    def produce(self) -> None:
        """Fill a topic whose end is no message, so that an executor looks there with its own client."""
        self.topics.create(self.name)
        self.topics.produce_committed(self.name, MESSAGES)

    def wait(self) -> Any:
        """Wait for messages as the listener does in the triggerer, and return what ends the wait."""

        async def first() -> Any:
            definition = define(self.name).model_dump(mode="json")
            trigger = NewMessagesTrigger(definition=definition)
            return await anext(trigger.run())

        return asyncio.run(asyncio.wait_for(first(), 60)).payload

    def plan(self) -> int:
        """Plan a batch, and return its number."""
        with connect(self.stack.database_url) as own:
            batch_id = run(plan_batch(own, self._admin(), define(self.name))).batch_id
        assert batch_id is not None
        return batch_id

    def ingest(self, batch_id: int) -> list[RangeOutcome]:
        """Ingest a batch on a Spark Connect server, and return the outcomes."""
        self.stack.start_spark_connect()
        spark = self.stack.spark_connect
        server = ConnectServer(name="logins", host="localhost", port=spark.port, token=spark.token)
        with ConnectSession(server, conf={}) as session:
            return ingest_batch(self._connections(), batch_id, session.open)

    def planned_and_finished(self) -> int:
        """Plan a batch, record that it was ingested, and return its number."""
        batch_id = self.plan()
        with connect(self.stack.database_url) as own:
            for range_ in batches.load(own, batch_id).ranges:
                finish(own, batch_id, range_.range, Created(6, 0, 0))
        return batch_id

    def ledger(self, connection: Connection) -> int:
        """Return the next offset of the topic's partition."""
        connection.rollback()
        (position,) = positions(connection, self.name).values()
        return position.next_offset

    def commit(self, batch_id: int) -> None:
        """Commit the group's offsets as the ingest Dag's second task does."""
        CommitOffsetsOperator(task_id="commit", definition=define(self.name), batch_id=batch_id).execute(a_try())

    def committed(self) -> list[int | None]:
        """Return the group's offsets."""
        admin = self._admin()
        parts = run(admin.partitions([self.name])).require()
        return list(run(admin.committed(define(self.name).consumer_group, parts)).require().values())

    def status(self, command: Command) -> Any:
        """Return what the command line shows of the trigger."""
        (shown,) = command("status", self.name, "--json").json()
        return shown

    def relay(self) -> list[bytes | None]:
        """Send messages of an outbox, and return those of its topic."""
        outbox, topic = new_outbox(self.stack), self.topics.create(f"{self.name}-answers")
        outbox.write(*(OutboxMessage(topic=topic, key="k", value=value.decode()) for value in MESSAGES))
        run_relay(JobSecrets(outbox.database_url, self.settings), outbox.definition)
        return [message.value() for message in consumed(self.topics.settings, topic)]

    def as_connection(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Give the settings to Airflow, and to the command line."""
        extra = json.dumps({"conn_type": "kafka", "extra": dict(self.settings)})
        monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", extra)
        monkeypatch.setenv("AIRFLOW_CONN_WORKORDERS_DB", self.stack.database_url)
        monkeypatch.setenv("WORKORDERS_KAFKA", json.dumps(dict(self.settings)))
        monkeypatch.setenv("WORKORDERS_DATABASE_URL", self.stack.database_url)

    def _connections(self) -> JobSecrets:
        return JobSecrets(self.stack.database_url, self.settings)

    def _admin(self) -> KafkaAdmin:
        return KafkaAdmin(client_settings(self.settings))
