"""The operator that creates the work orders of a planned batch: by a submitted application, or on a running Spark."""

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

import psycopg
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowFailException

from workorders import dag_ids
from workorders.airflow.assets import outlet, work_orders_asset
from workorders.airflow.page_links import PageLink
from workorders.airflow.retries import describe_next_retry, is_long_stall, next_try_seconds, tries_since_clear
from workorders.airflow.task_errors import EXPECTED_FAILURES, log_wrapped, reason
from workorders.kafka.airflow.connections import job_secrets
from workorders.kafka.airflow.ingest_runs import BATCH_ID, BatchLink, watch_growth
from workorders.kafka.airflow.spark_submission import EngineOperator
from workorders.kafka.airflow.stall_notifications import claim_alerts, send_alerts
from workorders.kafka.airflow.stalled_batch import StalledBatchTrigger
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.exceptions import BatchExpiredError, ForeignBatchError, StalledError, UnknownBatchError
from workorders.kafka.ingest.ingest_attempt import IngestAttempt, ingest_attempt
from workorders.kafka.ledger.stalls import Alert

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context


class CreateWorkOrdersOperator(EngineOperator):
    """Creates the work orders of a planned batch and moves the ledger with Spark; see `IngestAttempt`.

    A clear of the task of a finished batch ingests exactly that batch again.

    Args:
        definition: the trigger; a batch of another one is refused. Each try uses its fields, not those of the batch.
        batch_id: number of the batch; by default that in the id of the ingest run, or else in its configuration.
        listener_dag_id: the Dag that plans the batches. While it or the task's own Dag is paused, the batch does not
            grow.
        kwargs: arguments of `SparkSubmitOperator`, instead of those that follow from the definition.
    """

    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "batch_id")
    operator_extra_links = (*SparkSubmitOperator.operator_extra_links, PageLink("Kafka trigger"), BatchLink())
    batch_of = staticmethod(dag_ids.batch_of)
    ui_color = "#e8f1fa"

    def __init__(
        self,
        *,
        definition: KafkaTriggerDefinition,
        batch_id: str | int = BATCH_ID,
        listener_dag_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        outlets = [*(kwargs.pop("outlets", None) or ()), outlet(definition.name)]
        super().__init__(definition=definition, outlets=outlets, **kwargs)
        self.page = ("kafka", definition.name)
        self.batch_id = batch_id
        self.listener_dag_id = listener_dag_id
        self._attempted: IngestAttempt | None = None

    def execute(self, context: "Context") -> None:
        """Make one attempt at the batch, and send the alerts that are due after it.

        A persistent stall ends with `TaskDeferred` instead of its error, which is logged before.

        Raises:
            StalledError: some ranges could not be ingested; the others were.
            AirflowFailException: the batch belongs to another trigger, or retention has deleted it, or may have deleted
                some of its work orders; nothing was done.
        """
        self._attempt_and_alert(context)

    def execute_complete(self, context: "Context", event: str) -> None:
        """Make the next attempt, after the task was deferred; see `execute`."""
        self.log.info("%s", event)
        self._attempt_and_alert(context)

    def _attempt_and_alert(self, context: "Context") -> None:
        due: list[Alert] = []
        failure: Exception | None = None
        self._attempted = None
        try:
            secrets, batch_id = job_secrets(self.definition), int(self.batch_id)
            with ingest_attempt(secrets, batch_id, application_name="workorders check") as attempt:
                try:
                    self._attempt(context, attempt)
                finally:
                    if attempt.epoch:
                        due = claim_alerts(self.definition, attempt.database, self.log)
        except (ForeignBatchError, UnknownBatchError, BatchExpiredError) as error:
            raise AirflowFailException(str(error)) from None
        except EXPECTED_FAILURES as error:
            failure = error
        finally:
            send_alerts(self.definition, due, context, self.log)
        if failure is not None:
            self._stall(context, failure)

    def _attempt(self, context: "Context", attempt: IngestAttempt) -> None:
        ti = context["ti"]
        is_retry = tries_since_clear(ti.try_number, ti.max_tries) > 1
        if attempt.begin(self.definition, is_retry=is_retry, report=self._report):
            self._attempted = attempt
            watched = [self.listener_dag_id, ti.dag_id] if self.listener_dag_id else []
            with watch_growth(attempt, watched, self.log):
                failure = self.run_engine(context, attempt, self._report)
            attempt.settle(failure)
            if not attempt.batch.unfinished:  # a replay creates nothing that was not announced before
                return
        created, rejected = attempt.created
        if created or rejected:
            counts: dict[str, Any] = {"batch_id": attempt.batch_id, "created": created, "rejected": rejected}
            events = context["outlet_events"][outlet(self.definition.name)]
            events.add(work_orders_asset(self.definition.name), extra=counts)

    def _stall(self, context: "Context", error: Exception) -> NoReturn:
        """Raise the error with the whole sentence; or wait without a worker, once the waits are the longest."""
        ti = context["ti"]
        if isinstance(error, StalledError):
            text, cause = str(error), None
        else:
            committed = "The ledger has what was committed; the next try takes the rest."
            done = "Nothing was committed." if self._attempted is None else committed
            text, cause = f"{reason(error)} {done}", error
        sentence = f"Trigger {self.definition.name}, batch {self.batch_id}: {text} {describe_next_retry(self, ti)}"
        log_wrapped(self.log, sentence)
        if not is_long_stall(self, ti):
            raise StalledError(sentence) from cause
        trigger = StalledBatchTrigger(
            trigger_name=self.definition.name,
            batch_id=int(self.batch_id),
            error=sentence,
            delay=next_try_seconds(ti.try_number, ti.max_tries),
            kafka_connection=self.definition.kafka_connection,
            database_connection=self.definition.database_connection,
        )
        self.defer(trigger=trigger, method_name="execute_complete")

    def _report(self, text: str) -> None:
        for line in text.splitlines():
            self.log.info("%s", line)

    def get_openlineage_facets_on_complete(self, _: object) -> "OperatorLineage[Any, Any]":
        """Return what the batch read and wrote; Airflow's provider for OpenLineage calls it, also after a failure."""
        # Only where lineage is sent.
        from workorders.kafka.airflow.lineage import ingest_lineage  # noqa: PLC0415

        return ingest_lineage(self._attempted)

    def on_kill(self) -> None:
        """End the growth of the batch, and what the engine does; what your own engine has submitted continues."""
        if self._attempted is not None:
            with suppress(psycopg.Error):
                self._attempted.close_lease()
        super().on_kill()
