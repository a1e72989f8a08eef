"""Batches for the Spark application, planned by the real planner, and a look at how far they are."""

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass

import psutil
import psycopg

from local_stack.stack import LocalStack
from workorders.core.postgres.connection import connect
from workorders.kafka.client.admin import KafkaAdmin, run
from workorders.kafka.client.settings import client_settings
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.planning.planner import plan_batch

LARGEST_BYTES = 64 * 2**30
_PAUSE_SECONDS = 0.05


def plan(stack: LocalStack, topic: str, *, most: int, trigger: str | None = None, **fields: object) -> int:
    """Plan the next batch of a topic under a trigger, of the topic's name unless given, and return its number.

    The trigger may have other fields as well.

    Raises:
        RuntimeError: no message waits.
    """
    batch_id = _plan(stack, topic, most, trigger, fields)
    if batch_id is None:
        raise RuntimeError(f"There was nothing to plan on {topic}.")
    return batch_id


def seed(stack: LocalStack, topic: str, *, trigger: str | None = None) -> None:
    """Record where reading of an empty topic begins, under a trigger of the topic's name unless given.

    Raises:
        RuntimeError: messages wait, so that it is not empty.
    """
    if _plan(stack, topic, 1, trigger) is not None:
        raise RuntimeError(f"{topic} is not empty.")


def _plan(
    stack: LocalStack, topic: str, most: int, trigger: str | None, fields: Mapping[str, object] | None = None
) -> int | None:
    definition = KafkaTriggerDefinition.model_validate(
        {
            "name": trigger or topic,
            "workflow": "benchmark",
            "topics": [topic],
            "max_messages": most,
            "max_bytes": LARGEST_BYTES,
            "linger": 0,
            **(fields or {}),
        }
    )
    cluster = KafkaAdmin(client_settings(stack.kafka_settings))
    with connect(stack.database_url) as database:
        return run(plan_batch(database, cluster, definition)).batch_id


@dataclass(slots=True)
class Progress:
    """When the first transaction of a batch began and the last one had committed, as Postgres shows it."""

    url: str
    batch_id: int
    begun: float | None = None
    """Unix time of the oldest transaction of an executor; it connects when it has its first record batch."""
    ended: float | None = None
    """Unix time at which every range was seen as finished; late by the time between two looks at most."""

    def watch(self, process: psutil.Process) -> None:
        """Look again and again until the batch is finished or the process has ended."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            while self.ended is None and process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                self._look(connection)
                with contextlib.suppress(psutil.TimeoutExpired):
                    process.wait(_PAUSE_SECONDS)
            self._look(connection)

    def _look(self, connection: psycopg.Connection) -> None:
        row = connection.execute(
            "SELECT extract(epoch FROM min(backend_start))::float8 FROM pg_stat_activity WHERE application_name = %s",
            (f"workorders batch {self.batch_id}",),
        ).fetchone()
        if row is not None and row[0] is not None:
            self.begun = min(row[0], self.begun or row[0])
        finished = connection.execute(
            "SELECT bool_and(finished_at IS NOT NULL) FROM workorders.kafka_ranges WHERE batch_id = %s",
            (self.batch_id,),
        ).fetchone()
        if self.ended is None and finished is not None and finished[0]:
            self.ended = time.time()


def created(url: str, batch_id: int) -> int:
    """Return how many work orders a batch made."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT coalesce(sum(created), 0)::bigint FROM workorders.kafka_ranges WHERE batch_id = %s", (batch_id,)
        ).fetchone()
    return 0 if row is None else int(row[0])
