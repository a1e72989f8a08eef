"""The operator that creates the work orders of a planned batch: by a submitted application, or on a running Spark."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from inspect import unwrap
from typing import TYPE_CHECKING, Any, Final

import psycopg
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowNotFoundException,
    AirflowSecretsBackendAccessDenied,
)

from workorders.airflow import assets
from workorders.airflow.connections import database_url
from workorders.airflow.dag_runs.client import DagRuns
from workorders.airflow.page_links import PageLink
from workorders.airflow.retries import describe_next_retry, is_long_stall, next_try_seconds, tries_since_clear
from workorders.airflow.task_errors import EXPECTED_FAILURES, log_failure_wrapped, log_wrapped, reason
from workorders.core.exceptions import ConfigurationError
from workorders.kafka.airflow import ingest_spans
from workorders.kafka.airflow.connections import connect_server, kafka_settings, registry_settings
from workorders.kafka.airflow.engines import Engine, SparkConnectEngine, load_engine
from workorders.kafka.airflow.growth_watch import GrowthWatch
from workorders.kafka.airflow.ingest_runs import BATCH_ID, BatchLink
from workorders.kafka.airflow.spark_submission import (
    SparkSubmitEngine,
    TellingLines,
    add_kafka_source,
    default_application,
    send_package,
    use_own_program,
    without_lineage_secrets,
)
from workorders.kafka.airflow.stall_notifications import Alerting
from workorders.kafka.airflow.stalled_batch import StalledBatchTrigger
from workorders.kafka.client.secrets import JobSecrets
from workorders.kafka.definition.spark import DEFAULT_CONF
from workorders.kafka.definition.trigger import DEFAULT_ALERT_AFTER_SECONDS, KafkaTriggerDefinition
from workorders.kafka.exceptions import BatchExpiredError, ForeignBatchError, StalledError, UnknownBatchError
from workorders.kafka.ingest.ingest_attempt import NOTHING_COMMITTED, IngestAttempt, ingest_attempt

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context

    from workorders.kafka.spark.connect import ConnectSession

_NOT_SUBMITTED: Final = (
    ConfigurationError,
    AirflowNotFoundException,
    AirflowSecretsBackendAccessDenied,
    OSError,
    ValueError,
)
"""Failures before anything has started: a setting that we or Airflow's operator refuse, or no program to start."""


class CreateWorkOrdersOperator(SparkSubmitOperator):
    """Creates the work orders of a planned batch and moves the ledger with Spark.

    The type of the Spark connection decides how: `spark` submits an application, `spark_connect` runs the batch on a
    Spark Connect server that is running already, which saves the start of a JVM. An engine of your own decides itself.

    Postgres and Kafka are checked first, so that a batch that cannot be ingested now does not start a JVM every minute.
    A stall that lasts waits in the triggerer, without a worker: the task is deferred once its waits are the longest.
    Each attempt takes a new epoch, so that an earlier one changes nothing any more. A clear of the task of a finished
    batch ingests exactly that batch again.

    While messages arrive, the batch grows: its ranges are recorded and ingested round by round, so that a steady
    trigger needs no further task for minutes.

    Args:
        batch_id: number of the batch; by default that in the id of the ingest run, or else in its configuration.
        trigger_name: name of the trigger; a batch of another one is refused.
        kafka_connection: id of the Airflow Kafka connection.
        database_connection: id of the Airflow Postgres connection.
        registry_connection: id of the Airflow connection of the schema registry, if the trigger's formats need one.
        max_rejected_share: maximum share of rejected messages in a range; more stall the partition. None for no
            limit. This and the next two are the task's own and not read from the database.
        alert_after: seconds after which a stall is worth an alert.
        notify: import paths of notifiers.
        definition: the trigger. With it, each try uses its current fields. Without it, a try uses those of the last
            planned batch, and a stalled trigger may plan none.
        listener_dag_id: the Dag that plans the batches. While it or the task's own Dag is paused, the batch does not
            grow.
        engine: import path of a class that submits the batch elsewhere, instead of these two ways.
        kwargs: arguments of `SparkSubmitOperator`.
    """

    template_fields: Sequence[str] = (
        *SparkSubmitOperator.template_fields,
        "batch_id",
        "kafka_connection",
        "database_connection",
    )
    operator_extra_links = (*SparkSubmitOperator.operator_extra_links, PageLink("Kafka trigger"), BatchLink())
    ui_color = "#e8f1fa"

    def __init__(
        self,
        *,
        trigger_name: str,
        batch_id: str | int = BATCH_ID,
        kafka_connection: str = "kafka_default",
        database_connection: str = "workorders_db",
        registry_connection: str | None = None,
        max_rejected_share: float | None = None,
        alert_after: float = DEFAULT_ALERT_AFTER_SECONDS,
        notify: Sequence[str] = (),
        definition: KafkaTriggerDefinition | None = None,
        listener_dag_id: str | None = None,
        engine: str | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("application", default_application())
        kwargs["conf"] = {**DEFAULT_CONF, **(kwargs.get("conf") or {})}
        add_kafka_source(kwargs)
        # With True, a task that is cleared after its success would find its old application and not submit again.
        kwargs.setdefault("durable", False)
        kwargs["outlets"] = [*(kwargs.get("outlets") or ()), assets.outlet(trigger_name)]
        super().__init__(**kwargs)
        self.trigger_name = trigger_name
        self.page = ("kafka", trigger_name)
        self.batch_id = batch_id
        self.kafka_connection = kafka_connection
        self.database_connection = database_connection
        self.registry_connection = registry_connection
        self.max_rejected_share = max_rejected_share
        self.alert_after = alert_after
        self.notify = tuple(notify)
        self.definition = definition
        self.listener_dag_id = listener_dag_id
        self.engine = engine
        self._session: ConnectSession | None = None
        self._printed = TellingLines()
        self._attempted: IngestAttempt | None = None

    @log_failure_wrapped
    def execute(self, context: "Context") -> None:
        """Make one attempt at the batch, and send the alerts that are due after it.

        A stall that lasts ends with `TaskDeferred` instead of its error, which is logged before.

        Raises:
            StalledError: some ranges could not be ingested; the others were.
            AirflowFailException: the batch belongs to another trigger, or retention has deleted it, or may have deleted
                some of its work orders; nothing was done.
        """
        self._attempt_and_alert(context)

    @log_failure_wrapped
    def execute_complete(self, context: "Context", event: str) -> None:
        """Make the next attempt, after the task was deferred; see `execute`."""
        self.log.info("%s", event)
        self._attempt_and_alert(context)

    def _attempt_and_alert(self, context: "Context") -> None:
        alerting = Alerting(self.alert_after, self.notify)
        try:
            self._attempt(context, int(self.batch_id))
        except AirflowFailException:  # the alerts of another trigger are not claimed here
            raise
        except Exception as error:
            alerting.after_attempt(self.database_connection, self.trigger_name, context, self.log)
            if isinstance(error, StalledError):
                self._defer_long_stall(context, error)
            raise
        alerting.after_attempt(self.database_connection, self.trigger_name, context, self.log)

    def _defer_long_stall(self, context: "Context", error: StalledError) -> None:
        """Wait without a worker and without a further try in Airflow, once the waits are the longest."""
        ti, wait = context["ti"], error.retry_after_seconds
        if is_long_stall(self, ti, wait):
            log_wrapped(self.log, str(error))
            trigger = StalledBatchTrigger(
                trigger_name=self.trigger_name,
                batch_id=int(self.batch_id),
                error=str(error),
                delay=wait or next_try_seconds(ti.try_number, ti.max_tries),
                kafka_connection=self.kafka_connection,
                database_connection=self.database_connection,
            )
            self.defer(trigger=trigger, method_name="execute_complete")

    def _attempt(self, context: "Context", batch_id: int) -> None:
        """Make the attempt; an error before Spark has begun names what was not done."""
        begun = False
        try:
            with self._open(batch_id) as attempt:
                attempt.require_own(self.trigger_name)
                attempt.take(self.definition)
                self._log_ranges(attempt)
                if attempt.has_work(is_retry=self._is_retry(context)):
                    attempt.check()
                    for sentence in attempt.prepared.not_read:
                        self.log.info("%s", sentence)
                    begun = True
                    with ingest_spans.of_attempt(attempt, self.log):
                        self._ingest(context, attempt)
                else:
                    self.log.info("Nothing of batch %s is left to ingest.", batch_id)
                if not begun or attempt.batch.unfinished:  # a replay creates nothing that was not announced before
                    self._announce(context, attempt)
        except (ForeignBatchError, UnknownBatchError, BatchExpiredError) as error:
            raise AirflowFailException(str(error)) from None
        except StalledError as error:
            wait = error.retry_after_seconds
            raise StalledError(self._sentence(context, batch_id, str(error), wait), retry_after_seconds=wait) from None
        except EXPECTED_FAILURES as error:
            # A setting is refused before anything is submitted.
            is_undone = not begun or isinstance(error, ConfigurationError)
            done = NOTHING_COMMITTED if is_undone else "The ledger has what was committed; the next try takes the rest."
            raise StalledError(self._sentence(context, batch_id, f"{reason(error)} {done}")) from error

    def _open(self, batch_id: int) -> AbstractContextManager[IngestAttempt]:
        return ingest_attempt(
            self._connections(),
            batch_id,
            application_name="workorders check",
            max_rejected_share=self.max_rejected_share,
        )

    def _connections(self) -> JobSecrets:
        registry = None if self.registry_connection is None else registry_settings(self.registry_connection)
        return JobSecrets(database_url(self.database_connection), kafka_settings(self.kafka_connection), registry)

    @staticmethod
    def _is_retry(context: "Context") -> bool:
        """Return whether this try follows a failed one, and not a clear of the task."""
        ti = context["ti"]
        return tries_since_clear(ti.try_number, ti.max_tries) > 1

    def _log_ranges(self, attempt: IngestAttempt) -> None:
        batch = attempt.batch
        self.log.info("Batch %s of trigger %s (epoch %s): %s", batch.id, self.trigger_name, attempt.epoch, batch.label)
        for sentence in batch.supersessions:
            self.log.info("%s", sentence)

    def _announce(self, context: "Context", attempt: IngestAttempt) -> None:
        """Emit an asset event for the work orders of the batch."""
        created, rejected = attempt.created
        if created or rejected:
            counts = {"batch_id": attempt.batch_id, "created": created, "rejected": rejected}
            assets.announce(context, self.trigger_name, counts)

    def _ingest(self, context: "Context", attempt: IngestAttempt) -> None:
        """Run the engine; a batch that is not replayed grows while it runs.

        Raises:
            StalledError: some ranges could not be ingested; the others were.
        """
        self._attempted = attempt
        with self._growth_watch(context, attempt):
            failure = self._run(context, attempt)
        attempt.settle(failure)

    def _growth_watch(self, context: "Context", attempt: IngestAttempt) -> AbstractContextManager[object]:
        if self.listener_dag_id is None:
            return nullcontext()
        dags = [DagRuns(self.listener_dag_id), DagRuns(context["ti"].dag_id)]
        return GrowthWatch(attempt, dags, self.log)

    def _run(self, context: "Context", attempt: IngestAttempt) -> str:
        """Submit the attempt; return why it was not submitted or has failed, or an empty text."""
        try:
            with self._engine(context, attempt) as engine:
                engine.submit(attempt.batch_id, attempt.epoch)
        except StalledError as error:
            return str(error)
        except (*_NOT_SUBMITTED, AirflowException, RuntimeError) as error:
            what = "Nothing was submitted" if isinstance(error, _NOT_SUBMITTED) else "The Spark application failed"
            failure = f"{what}: {reason(error)}"
            self.log.error("%s", failure)
            return failure
        return ""

    @contextmanager
    def _engine(self, context: "Context", attempt: IngestAttempt) -> Iterator[Engine]:
        """Open what runs the attempt."""
        share = self.max_rejected_share
        options = () if share is None else ("--max-rejected-share", str(share))
        if self.engine is not None:
            yield load_engine(self.engine, self._conn_id, options)
        elif (server := connect_server(self._conn_id)) is not None:
            # A task that submits loads neither PySpark nor Arrow.
            from workorders.kafka.spark.connect import ConnectSession  # noqa: PLC0415

            conf = {name: value for name, value in (self.conf or {}).items() if DEFAULT_CONF.get(name) != value}
            with ConnectSession(server, conf=conf) as self._session:
                yield SparkConnectEngine(self._session, attempt, self.log)
        else:
            # Airflow's wrapper warns of a call that does not come from `execute`, as after the task was deferred.
            execute = partial(unwrap(SparkSubmitOperator.execute), self, context)
            yield SparkSubmitEngine(self, attempt.secrets, options, execute, self._printed)

    def get_openlineage_facets_on_complete(self, _: object) -> "OperatorLineage[Any, Any]":
        """Return what the batch read and wrote; Airflow's provider for OpenLineage calls it, also after a failure."""
        # Only where lineage is sent.
        from airflow.providers.openlineage.extractors import OperatorLineage  # noqa: PLC0415

        from workorders.kafka.airflow.lineage import ingest_lineage  # noqa: PLC0415

        attempt = self._attempted
        if attempt is None:
            return OperatorLineage()
        return ingest_lineage(attempt.ended or attempt.batch, attempt.secrets.kafka, attempt.secrets.database_url)

    def _get_hook(self) -> SparkSubmitHook:
        """Return the hook that submits; Airflow's `execute` calls it when `conf` is complete."""
        self.conf = without_lineage_secrets(self.conf or {}, self.log)
        hook = super()._get_hook()
        use_own_program(hook)
        self._printed.watch(hook)
        send_package(hook, self.application)
        return hook

    def on_kill(self) -> None:
        """End the growth of the batch, and the Spark application or the query on the server.

        What another engine has submitted continues, and adds no ranges.
        """
        if self._attempted is not None:
            with suppress(psycopg.Error):
                self._attempted.close_lease()
        if self._session is not None:
            self._session.release()
        elif self.engine is None:
            super().on_kill()

    def _sentence(self, context: "Context", batch_id: int, error: str, wait: int | None = None) -> str:
        what_next = describe_next_retry(self, context["ti"], retry_after_seconds=wait)
        return f"Trigger {self.trigger_name}, batch {batch_id}: {error} {what_next}"
