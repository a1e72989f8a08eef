"""Attempts at planned batches, through Spark, as a task makes them."""

from collections.abc import Callable, Mapping
from typing import Any

from workorders.kafka.client.admin import KafkaAdmin, run
from workorders.kafka.client.secrets import JobSecrets
from workorders.kafka.client.settings import client_settings
from workorders.kafka.ingest.attempt import RangeOutcome
from workorders.kafka.ingest.ingest_attempt import ingest_attempt
from workorders.kafka.ingest.log_checks import PreflightResult, check_batch
from workorders.kafka.ledger.batches import Batch
from workorders.kafka.spark.driver import BatchIngest, OpenSession


def preflight(kafka: Mapping[str, Any], batch: Batch, epoch: int) -> PreflightResult:
    """Hold a batch against the logs of the cluster with these librdkafka settings."""
    return run(check_batch(KafkaAdmin(client_settings(kafka)), batch, epoch))


def ingest_batch(
    secrets: JobSecrets,
    batch_id: int,
    session: OpenSession,
    *,
    epoch: int | None = None,
    before_spark: Callable[[], object] = lambda: None,
) -> list[RangeOutcome]:
    """Make one attempt at a batch, which does not grow; something may happen between its checks and its query."""
    with ingest_attempt(secrets, batch_id, application_name="test") as attempt:
        attempt.resume(epoch)
        before_spark()
        return BatchIngest(attempt, session).ingest_round(attempt.prepared.attempts, attempt.prepared.unreadable)
