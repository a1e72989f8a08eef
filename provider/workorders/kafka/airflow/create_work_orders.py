"""The operator that creates the work orders of a planned batch: by a submitted application, or on a running Spark."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from inspect import unwrap
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from workorders.airflow import assets
from workorders.airflow.connections import database_url
from workorders.airflow.dag_runs.client import DagRuns
from workorders.airflow.page_links import PageLink
from workorders.airflow.retries import describe_next_retry, is_long_stall, next_try_seconds, tries_since_clear
from workorders.airflow.task_errors import EXPECTED_FAILURES, log_failure_wrapped, log_wrapped, reason
from workorders.core.admission import limits
from workorders.core.exceptions import WorkOrdersError
from workorders.core.postgres.connection import Connection, connect
from workorders.kafka.airflow import ingest_spans
from workorders.kafka.airflow.connections import connect_server, kafka_settings, registry_settings
from workorders.kafka.airflow.engines import Engine, SparkConnectEngine, load_engine
from workorders.kafka.airflow.ingest_runs import BATCH_ID, BatchLink, own_batch
from workorders.kafka.airflow.next_batches import NextBatches
from workorders.kafka.airflow.spark_submission import (
    SparkSubmitEngine,
    add_kafka_source,
    default_application,
    send_package,
    without_lineage_secrets,
)
from workorders.kafka.airflow.stall_notifications import Alerting
from workorders.kafka.airflow.stalled_batch import StalledBatchTrigger, nothing_committed
from workorders.kafka.client.admin import KafkaAdmin
from workorders.kafka.client.secrets import JobSecrets
from workorders.kafka.client.settings import client_settings
from workorders.kafka.definition.spark import DEFAULT_CONF
from workorders.kafka.definition.trigger import DEFAULT_ALERT_AFTER_SECONDS, KafkaTriggerDefinition
from workorders.kafka.exceptions import StalledError
from workorders.kafka.ingest.preflight import PreflightResult, preflight
from workorders.kafka.ledger import batches, stalls
from workorders.kafka.ledger import positions as ledger
from workorders.kafka.ledger.attempt_lock import attempt_lock
from workorders.kafka.ledger.batches import Batch, run_id
from workorders.kafka.planning import planner

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context

    from workorders.kafka.spark.connect import ConnectServer, ConnectSession


@dataclass(frozen=True, slots=True)
class _Begun:
    """An attempt that has its epoch, and whose ranges were held against Kafka."""

    batch: Batch
    epoch: int
    prepared: PreflightResult
    lock: Connection
    """Holds the lock of this attempt."""


class CreateWorkOrdersOperator(SparkSubmitOperator):
    """Creates the work orders of a planned batch and moves the ledger with Spark.

    The type of the Spark connection decides how: `spark` submits an application, `spark_connect` runs the batch on a
    Spark Connect server that is running already, which saves the start of a JVM. An engine of your own decides itself.

    Postgres and Kafka are checked first, so that a batch that cannot be ingested now does not start a JVM every minute.
    A stall that lasts waits in the triggerer, without a worker: the task is deferred once its waits are the longest.
    Each attempt takes a new epoch, so that an earlier one changes nothing any more. A clear of the task of a finished
    batch ingests exactly that batch again.

    While messages come, the task on a server then takes the trigger's next batches, for five minutes at most. As far as
    the trigger's limit allows it, they become one batch with the task's own, which a clear of the task replays. The
    ingest run of another one is started afterwards and is skipped, because it has nothing to do; a clear of its task
    replays it.

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
            planned batch, and a stalled trigger may plan none. With it and a Spark Connect server, the task takes the
            next batches.
        listener_dag_id: the Dag that plans the batches. While it or the task's own Dag is paused, the task takes no
            other batch.
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

    @log_failure_wrapped
    def execute(self, context: "Context") -> None:
        """Make one attempt at the batch, and send the alerts that are due after it.

        A stall that lasts ends with `TaskDeferred` instead of its error, which is logged before.

        Raises:
            StalledError: some ranges could not be ingested; the others were.
            AirflowFailException: the batch belongs to another trigger; nothing was done.
            AirflowSkipException: the task of another batch has ingested it.
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
        # The alerts of another trigger are not claimed here, and nothing was attempted for a skipped batch.
        except (AirflowFailException, AirflowSkipException):
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
                alert_after=self.alert_after,
                kafka_connection=self.kafka_connection,
                database_connection=self.database_connection,
            )
            self.defer(trigger=trigger, method_name="execute_complete")

    def _attempt(self, context: "Context", batch_id: int) -> None:
        try:
            connections = self._connections()
            own_id = self._own_batch(connections, batch_id)  # before an epoch, which fences others
            with attempt_lock(connections.database_url, own_id) as lock:
                with _connect(connections) as database:
                    batches.mark_handed_over(database, [own_id])
                    self._skip_if_taken(context, batches.load(database, own_id))
                    begun = self._begin(database, connections, own_id, lock, again=self._is_retry(context))
                if begun is not None:
                    with ingest_spans.of_attempt(lock, self.trigger_name, own_id, self.log):
                        self._ingest(context, connections, begun)
                if begun is None or begun.batch.unfinished:  # a replay creates nothing that was not announced before
                    self._announce(context, lock, own_id)
        except StalledError as error:
            wait = error.retry_after_seconds
            raise StalledError(self._sentence(context, batch_id, str(error), wait), retry_after_seconds=wait) from None
        except EXPECTED_FAILURES as error:
            raise StalledError(self._sentence(context, batch_id, nothing_committed(error))) from error

    def _connections(self) -> JobSecrets:
        registry = None if self.registry_connection is None else registry_settings(self.registry_connection)
        return JobSecrets(database_url(self.database_connection), kafka_settings(self.kafka_connection), registry)

    def _own_batch(self, connections: JobSecrets, batch_id: int) -> int:
        """Return the number of the batch, or of the one that it was merged into."""
        with _connect(connections) as database:
            batch = own_batch(database, batch_id, self.trigger_name)
        if batch.id != batch_id:
            self.log.info(
                "Batch %s was merged into batch %s, with all batches of the trigger from %s on: these are replayed.",
                *(batch_id, batch.id, batch.first_id),
            )
        return batch.id

    @staticmethod
    def _is_retry(context: "Context") -> bool:
        """Return whether this try follows a failed one, and not a clear of the task."""
        ti = context["ti"]
        return tries_since_clear(ti.try_number, ti.max_tries) > 1

    def _skip_if_taken(self, context: "Context", batch: Batch) -> None:
        """End the first try of the run that shows a batch which another batch's task has ingested.

        A later try follows a clear, and a run of another id was started by a person: both replay the batch.
        """
        ti = context["ti"]
        is_own_first_try = ti.try_number == 1 and ti.run_id == run_id(batch.id)
        if batch.taken_by is None or batch.finished != batch.ranges or not is_own_first_try:
            return
        for part in batch.finished:
            self.log.info(
                "%s: %s created, %s rejected, %s existing, %s filtered",
                *(part.range, part.created, part.rejected, part.existing, part.filtered),
            )
        raise AirflowSkipException(
            f"Trigger {self.trigger_name}, batch {batch.id}: the task of run {run_id(batch.taken_by)} ingested it "
            f"while a backlog waited. Nothing was done here; clear this task to replay the batch."
        )

    def _begin(
        self, database: Connection, connections: JobSecrets, batch_id: int, lock: Connection, *, again: bool
    ) -> "_Begun | None":
        """Take the batch, and refuse to start Spark for a batch without readable messages.

        Returns the attempt; None if there is nothing left to do: an operator's decision superseded it, or an earlier
        attempt stored everything and died before it moved the ledger. A retry then succeeds, and a clear replays what
        was ingested.
        """
        before = batches.load(database, batch_id)
        epoch = ledger.take_epoch(database, batch_id)
        batch = batches.load(database, batch_id)
        self.log.info("Batch %s of trigger %s (epoch %s): %s", batch_id, batch.trigger.name, epoch, batch.label)
        for sentence in batch.supersessions:
            self.log.info("%s", sentence)
        superseded = bool(batch.supersessions) and (again or not batch.finished)
        if not batch.unfinished and (before.unfinished or superseded):
            self.log.info("Nothing of batch %s is left to ingest.", batch_id)
            return None
        try:
            batch = self._with_current_definition(database, batch)
            if batch.unfinished:  # a replay creates nothing that was not counted before
                limits.require_capacity(database, batch.trigger)
            prepared = preflight(connections.kafka, batch, epoch, max_rejected_share=self.max_rejected_share)
        except WorkOrdersError as error:
            stalls.record_all(database, batch, epoch, nothing_committed(error))
            raise
        if not prepared.attempts:
            refusals = {range_: str(error) for range_, error in prepared.unreadable.items()}
            stalls.record(database, batch, epoch, refusals)
            raise StalledError(" ".join(refusals.values()))
        return _Begun(batch, epoch, prepared, lock)

    def _with_current_definition(self, database: Connection, batch: Batch) -> Batch:
        """Return the batch with the definition of its trigger's current file.

        The planner records the file with each batch. While all partitions are stalled, there is none, and only a change
        of the file may end the stall.
        """
        if self.definition is None:
            return batch
        with database.transaction():
            planner.register(database, self.definition)
        return batches.load(database, batch.id)

    def _announce(self, context: "Context", lock: Connection, batch_id: int) -> None:
        """Emit an asset event for the work orders of the batch. Never fails: they are created."""
        try:
            created, rejected = batches.created_by_task(lock, self.trigger_name, batch_id)
        except EXPECTED_FAILURES as error:
            self.log.warning("No asset event was sent: %s", reason(error))
            return
        if created or rejected:
            counts = {"batch_id": batch_id, "created": created, "rejected": rejected}
            assets.announce(context, self.trigger_name, counts)

    def _ingest(self, context: "Context", connections: JobSecrets, begun: "_Begun") -> None:
        share = self.max_rejected_share
        options = () if share is None else ("--max-rejected-share", str(share))
        if self.engine is not None:
            self._run(load_engine(self.engine, self._conn_id, options), connections, begun)
        elif (server := connect_server(self._conn_id)) is not None:
            self._run_on_server(context, server, connections, begun)
        else:
            # Airflow's wrapper warns of a call that does not come from `execute`, as after the task was deferred.
            execute = partial(unwrap(SparkSubmitOperator.execute), self, context)
            self._run(SparkSubmitEngine(self, connections, options, execute), connections, begun)

    def _run_on_server(
        self, context: "Context", server: "ConnectServer", connections: JobSecrets, begun: "_Begun"
    ) -> None:
        """Do the driver's part in this process, with a session on a running server; take the next batches after it."""
        # A task that submits loads neither PySpark nor Arrow.
        from workorders.kafka.spark.connect import ConnectSession  # noqa: PLC0415

        conf = {name: value for name, value in (self.conf or {}).items() if DEFAULT_CONF.get(name) != value}
        with ConnectSession(server, conf=conf) as self._session:
            self._run_in(self._session, connections, begun)
            if begun.batch.unfinished:  # before this attempt; a replay is what a person asked for, and not more
                self._take_next_batches(context, self._session, connections, begun)

    def _take_next_batches(
        self, context: "Context", session: "ConnectSession", connections: JobSecrets, own: "_Begun"
    ) -> None:
        """Take the trigger's next batches while messages come. Never fails: the task's own batch is ingested."""
        if self.definition is None or self.listener_dag_id is None:
            return
        try:
            with _connect(connections) as database:
                NextBatches(
                    own.batch,
                    own.lock,
                    self.definition,
                    listener=DagRuns(self.listener_dag_id),
                    ingest=DagRuns(context["ti"].dag_id),
                    database=database,
                    cluster=KafkaAdmin(client_settings(connections.kafka)),
                    log=self.log,
                ).take(lambda batch_id: self._ingest_taken(batch_id, database, session, connections))
        except EXPECTED_FAILURES as error:
            self.log.warning("The listener starts the runs of further batches: %s", reason(error))

    def _ingest_taken(
        self, batch_id: int, database: Connection, session: "ConnectSession", connections: JobSecrets
    ) -> None:
        with attempt_lock(connections.database_url, batch_id) as lock:
            begun = self._begin(database, connections, batch_id, lock, again=False)
            if begun is not None:
                self._run_in(session, connections, begun)

    def get_openlineage_facets_on_complete(self, _: object) -> "OperatorLineage[Any, Any]":
        """Return what the batch read and wrote; Airflow's provider for OpenLineage calls it, also after a failure."""
        from workorders.kafka.airflow.lineage import ingest_lineage  # noqa: PLC0415 - only where lineage is sent

        connections = self._connections()
        with _connect(connections) as database:
            batch = own_batch(database, int(self.batch_id), self.trigger_name)
        return ingest_lineage(batch, connections.kafka, connections.database_url)

    def _get_hook(self) -> SparkSubmitHook:
        """Return the hook that submits; Airflow's `execute` calls it when `conf` is complete."""
        self.conf = without_lineage_secrets(self.conf or {}, self.log)
        hook = super()._get_hook()
        send_package(hook, self.application)
        return hook

    def on_kill(self) -> None:
        """End the Spark application, or the query on the server; what another engine has submitted continues."""
        if self._session is not None:
            self._session.release()
        elif self.engine is None:
            super().on_kill()

    def _run_in(self, session: "ConnectSession", connections: JobSecrets, begun: "_Begun") -> None:
        """Make the attempt on a running server.

        Raises:
            StalledError: some ranges could not be ingested; the others were.
        """
        engine = SparkConnectEngine(session, connections, begun.batch, begun.prepared, self.log)
        self._run(engine, connections, begun)

    def _run(self, engine: Engine, connections: JobSecrets, begun: "_Begun") -> None:
        """Submit the attempt, and ask the ledger what came of it.

        Raises:
            StalledError: some ranges could not be ingested; the others were.
        """
        batch_id, failure = begun.batch.id, ""
        try:
            engine.submit(batch_id, begun.epoch)
        except StalledError as error:
            failure = str(error)
        # OSError: spark-submit is not installed.
        except (AirflowException, OSError) as error:
            failure = f"The Spark application failed: {error}"
            self.log.error("%s", failure)
        with _connect(connections) as database:
            errors = stalls.errors_of_batch(database, batch_id)
            if errors:
                stalls.record_unexplained(database, batch_id, begun.epoch)
            wait = ledger.seconds_to_next_try(database, batch_id)
        if errors or failure:
            raise StalledError(" ".join(errors) or failure, retry_after_seconds=wait)

    def _sentence(self, context: "Context", batch_id: int, error: str, wait: int | None = None) -> str:
        what_next = describe_next_retry(self, context["ti"], retry_after_seconds=wait)
        return f"Trigger {self.trigger_name}, batch {batch_id}: {error} {what_next}"


def _connect(connections: JobSecrets) -> Connection:
    return connect(connections.database_url, autocommit=True, application_name="workorders check")
