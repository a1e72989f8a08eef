"""The next batches of a trigger, which the task of a batch takes on a running Spark while a backlog waits.

Each is recorded, fenced, and replayable like every batch, and has an ingest run of its own. It only needs no round of
the listener and no start of a task.
"""

import time
from typing import Final

from workorders.airflow.dag_runs.client import DagRuns
from workorders.airflow.notifications import Log
from workorders.core.postgres.connection import Connection
from workorders.kafka.airflow.ingest_runs import dispatch
from workorders.kafka.client.admin import KafkaAdmin, run
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.planning.planner import plan_batch

TAKING_SECONDS: Final = 60.0
"""How long a task takes batches, in seconds. The consumer group's offsets are committed only after it."""


class NextBatches:
    """Plans batches for the task of a batch, and starts their ingest runs.

    The listener may plan at the same time. The trigger's lock orders both, and each plans only the partitions that no
    unfinished batch has.

    Args:
        taker: the batch whose task takes the others.
        definition: the trigger.
        listener: the Dag runs of its listener; a paused listener disables the trigger.
        ingest: the Dag runs of its ingest; a paused ingest holds batches back.
        database: a connection in autocommit mode.
        cluster: the trigger's cluster.
        log: of the task.
    """

    def __init__(
        self,
        taker: int,
        definition: KafkaTriggerDefinition,
        *,
        listener: DagRuns,
        ingest: DagRuns,
        database: Connection,
        cluster: KafkaAdmin,
        log: Log,
    ) -> None:
        self._taker = taker
        self._definition = definition
        self._listener = listener
        self._ingest = ingest
        self._database = database
        self._cluster = cluster
        self._log = log
        self._deadline = time.monotonic() + TAKING_SECONDS
        self._planned: list[int] = []

    def plan(self) -> int | None:
        """Record the next batch, and return its number; None if the task takes no further one.

        Raises:
            KafkaUnavailableError: the cluster did not answer.
            psycopg.Error: the database failed.
            AirflowRuntimeError: Airflow did not answer whether a Dag is paused.
        """
        if time.monotonic() > self._deadline or self._listener.is_paused() or self._ingest.is_paused():
            return None
        plan = run(plan_batch(self._database, self._cluster, self._definition, taken_by=self._taker))
        if plan.batch_id is not None:
            self._log.info("Planned batch %s: %s", plan.batch_id, ", ".join(map(str, plan.ranges)))
            self._planned.append(plan.batch_id)
        return plan.batch_id

    def start_runs(self) -> None:
        """Start the ingest runs of the planned batches: finished ones are shown, the others continue.

        Raises:
            AirflowRuntimeError: Airflow did not start a run; the listener starts it.
            psycopg.Error: the database failed.
        """
        while self._planned:
            dispatch(self._database, self._planned[0], self._ingest, self._log, is_new=True)
            del self._planned[0]
