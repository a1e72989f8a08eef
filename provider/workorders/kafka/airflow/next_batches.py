"""The next batches of a trigger, which the task of a batch takes on a running Spark while messages come.

Each is recorded, fenced, and replayable like every batch. It needs no round of the listener and no start of a task.
"""

import random
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from workorders.airflow.dag_runs.client import DagRuns
from workorders.airflow.notifications import Log
from workorders.airflow.task_errors import EXPECTED_FAILURES, reason
from workorders.core.postgres.connection import Connection
from workorders.kafka.airflow.ingest_runs import dispatch
from workorders.kafka.client.admin import KafkaAdmin, run
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.ledger import batch_merges, batches
from workorders.kafka.ledger import positions as ledger
from workorders.kafka.ledger.attempt_lock import try_take
from workorders.kafka.ledger.batches import Batch
from workorders.kafka.planning.planner import plan_batch
from workorders.kafka.planning.wakeup import LARGE_BACKLOG, Backlog, BatchPolicy, backlog, rest_seconds, should_plan

TAKING_SECONDS: Final = 180.0
"""How long a task takes batches on average, in seconds. The consumer group's offsets are committed only after it."""


class NextBatches:
    """Plans batches for the task of a batch, and shows them in Airflow.

    The listener may plan at the same time. The trigger's lock orders both, and each plans only the partitions that no
    unfinished batch has.

    Args:
        taker: the batch whose task takes the others.
        lock: the connection that holds the lock of the task's attempt.
        definition: the trigger.
        listener: the Dag runs of its listener; a paused listener disables the trigger.
        ingest: the Dag runs of its ingest; a paused ingest holds batches back.
        database: a connection in autocommit mode.
        cluster: the trigger's cluster.
        log: of the task.
    """

    def __init__(
        self,
        taker: Batch,
        lock: Connection,
        definition: KafkaTriggerDefinition,
        *,
        listener: DagRuns,
        ingest: DagRuns,
        database: Connection,
        cluster: KafkaAdmin,
        log: Log,
    ) -> None:
        self._taker = taker
        self._lock = lock
        self._definition = definition
        self._policy = BatchPolicy(
            definition.min_messages, definition.max_wait, definition.rate_limit_per_second, definition.max_messages
        )
        self._listener = listener
        self._ingest = ingest
        self._database = database
        self._cluster = cluster
        self._log = log

    def take(self, ingest: Callable[[int], None]) -> None:
        """Ingest one batch after the other, until none comes, one fails, or the time is over; then show them.

        Only one task of a trigger does this at a time. A batch that fails has its own run.

        Args:
            ingest: ingests the batch of a number.

        Raises:
            AirflowRuntimeError: Airflow did not start a run; the listener starts it.
            psycopg.Error: the database failed.
        """
        if not try_take(self._lock, self._taker.trigger.id):
            return
        # Tasks that began together would end together, and all be replaced at the same moment.
        until = time.monotonic() + TAKING_SECONDS * random.uniform(0.5, 1.5)  # noqa: S311 - no secret
        try:
            while (batch_id := self._next(until)) is not None:
                begun = time.monotonic()
                ingest(batch_id)
                self._rest(rest_seconds(time.monotonic() - begun))
        except EXPECTED_FAILURES as error:
            self._log.warning("The task takes no further batch; what is unfinished has its own run. %s", reason(error))
        self._show()

    def _next(self, until: float) -> int | None:
        """Wait for messages, and return the batch that was planned for them; None if none is."""
        begun = time.monotonic()
        while not self._is_due(time.monotonic() - begun):
            if time.monotonic() + self._definition.poll_interval > min(begun + self._definition.linger, until):
                return None
            time.sleep(self._definition.poll_interval)
        if time.monotonic() > until or self._listener.is_paused() or self._ingest.is_paused():
            return None
        plan = run(plan_batch(self._database, self._cluster, self._definition, taken_by=self._taker.id))
        if plan.batch_id is not None:
            self._log.info("Planned batch %s: %s", plan.batch_id, ", ".join(map(str, plan.ranges)))
        return plan.batch_id

    def _rest(self, seconds: float) -> None:
        """Wait so long, or until a large backlog waits."""
        rested = time.monotonic() + seconds
        large = min(LARGE_BACKLOG, self._policy.max_messages)
        while (left := rested - time.monotonic()) > 0 and self._waiting().offsets < large:
            time.sleep(min(left, self._definition.poll_interval))

    def _is_due(self, waited_seconds: float) -> bool:
        """Return whether a batch of the free partitions should be planned now, as the listener decides it."""
        since_last = batches.seconds_since_last(self._database, self._definition.name)
        return should_plan(
            self._waiting(), self._policy, waited_seconds=waited_seconds, seconds_since_last_batch=since_last
        )

    def _waiting(self) -> Backlog:
        positions = ledger.positions(self._database, self._definition.name)
        ends = run(self._cluster.last_stable_offsets(position.partition for position in positions.values()))
        # A log that contradicts the ledger, and new partitions, are left to the listener.
        return replace(backlog(ends, positions), new=(), mismatches=())

    def _show(self) -> None:
        """Make the task's batches one batch as far as one may be so large, and start the runs of the others."""
        merged = batch_merges.merge_taken(self._lock, self._taker.id, self._definition.max_messages)
        self._lock.commit()
        if merged is not None:
            self._log.info("This run has %s now: %s", self._taker.run_id, batches.load(self._database, merged).label)
        for batch_id in batches.taken_without_run(self._database, self._taker.id):
            dispatch(self._database, batch_id, self._ingest, self._log, is_new=True)
