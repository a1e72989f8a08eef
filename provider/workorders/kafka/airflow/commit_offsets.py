"""The operator that commits the ledger's positions to the consumer group."""

import time
from collections.abc import Sequence
from typing import Any

from airflow.sdk import BaseOperator, Context

from workorders import dag_ids
from workorders.airflow.connections import database_url
from workorders.airflow.page_links import PageLink
from workorders.airflow.task_errors import explain_failures
from workorders.core import triggers
from workorders.core.postgres.connection import connect
from workorders.kafka.airflow.connections import kafka_settings
from workorders.kafka.airflow.ingest_runs import BATCH_ID, BatchLink
from workorders.kafka.client.admin import KafkaAdmin, run
from workorders.kafka.client.requests import Answers
from workorders.kafka.client.settings import client_settings
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.exceptions import (
    CoordinatorMovingError,
    ForeignBatchError,
    GroupCommitError,
    UnknownBatchError,
    UnknownTopicError,
)
from workorders.kafka.ledger import batches
from workorders.kafka.ledger import positions as ledger
from workorders.kafka.partitions import Partition, error_at

COORDINATOR_SECONDS = 60.0
"""How long a commit waits for the group's coordinator, as Java's client does. The first group of a broker has none for
a moment, and a broker that was killed first reads its groups: neither is a failure to show."""
_RETRY_SECONDS = 0.5


class CommitOffsetsOperator(BaseOperator):
    """Commits the ledger's positions to the trigger's consumer group, for lag tools and people.

    It commits the ledger's current positions and not the batch's ends, so a late or repeated commit cannot move the
    consumer group back. The operator does not join it.

    Args:
        definition: the trigger.
        batch_id: number of the batch; by default that in the id of the ingest run, or else in its configuration.
    """

    template_fields: Sequence[str] = ("batch_id",)
    operator_extra_links = (PageLink("Kafka trigger"), BatchLink())
    batch_of = staticmethod(dag_ids.batch_of)
    ui_color = "#e8f1fa"

    def __init__(self, *, definition: KafkaTriggerDefinition, batch_id: str | int = BATCH_ID, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.definition = definition
        self.page = ("kafka", definition.name)
        self.batch_id = batch_id

    def execute(self, context: Context) -> None:
        """Read the ledger and write the group's offsets, under a lock that orders the commits of a trigger.

        Raises:
            GroupCommitError: the group has other members, the broker refused, or it or the database did not answer.
            AirflowFailException: the batch belongs to another trigger; nothing was committed.
        """
        where = f"Trigger {self.definition.name}, batch {self.batch_id}"
        undone = (
            f"The offsets of consumer group {self.definition.consumer_group} were not committed; the work orders are "
            f"safe in the ledger, which does not depend on the group."
        )
        foreign = (ForeignBatchError, UnknownBatchError)
        with explain_failures(self, context, where, undone, GroupCommitError, final=foreign):
            self._commit_when_coordinated()

    def _commit_when_coordinated(self) -> None:
        """Commit; retry for a while if the group has no coordinator, without a lock between two tries."""
        deadline = time.monotonic() + COORDINATOR_SECONDS
        while True:
            try:
                self._commit()
            except CoordinatorMovingError as error:
                if time.monotonic() > deadline:
                    raise
                self.log.info("%s It is asked again in %s s.", error, _RETRY_SECONDS)
                time.sleep(_RETRY_SECONDS)
            else:
                return

    def _commit(self) -> None:
        # A new client for each try: librdkafka remembers a group's coordinator, also when the broker is it no more.
        cluster = KafkaAdmin(client_settings(kafka_settings(self.definition.kafka_connection)))
        url = database_url(self.definition.database_connection)
        with connect(url, application_name="workorders commit") as database:
            batch_id = int(self.batch_id)
            unfinished = batches.require_own(database, batch_id, self.definition.name)
            if unfinished:
                # The task before this one was marked as success. An active run would keep the listener from the batch.
                self.log.warning(
                    "Batch %s: %s of its ranges have no work orders yet and hold their partitions. No offset is "
                    "committed now; the listener dispatches the batch again.",
                    *(batch_id, unfinished),
                )
                return
            ledger.lock_group_commits(database, triggers.find(database, self.definition.name).id)
            positions = ledger.positions_of_batch(database, batch_id)
            # A partition that Kafka does not have has no offset in any group; after a re-creation it has other offsets.
            described = run(cluster.partitions(sorted({partition.topic for partition in positions})))
            committed = {
                partition: offset for partition, offset in positions.items() if not _is_gone(partition, described)
            }
            run(cluster.commit(self.definition.consumer_group, committed))
        for partition, offset in positions.items():
            if partition in committed:
                outcome = f"committed at {offset}"
            else:
                outcome = "not committed, because Kafka does not have the topic that the ledger follows"
            self.log.info("Group %s: %s %s %s.", self.definition.consumer_group, *partition.topic_partition, outcome)


def _is_gone(partition: Partition, described: Answers[list[Partition]]) -> bool:
    """Return whether Kafka does not have a partition; if it may not be described, the commit tells what is missing."""
    error = error_at(described.errors, partition)
    return isinstance(error, UnknownTopicError) or (error is None and partition not in described.found)
