"""The operator that plans the next batch of a Kafka trigger and starts its ingest."""

from collections.abc import Iterable, Sequence
from typing import Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowRuntimeError

from workorders import dag_ids
from workorders.airflow.connections import database_url
from workorders.airflow.dag_runs.client import DagRuns
from workorders.airflow.page_links import PageLink
from workorders.airflow.task_errors import TaskFailedError, explain_failures, reason
from workorders.core import schema
from workorders.core.postgres.connection import Connection, connect
from workorders.core.worker.exceptions import InputUnreadableError
from workorders.kafka.airflow.connections import kafka_settings
from workorders.kafka.airflow.ingest_runs import active, dispatch
from workorders.kafka.airflow.stall_notifications import claim_alerts, send_alerts
from workorders.kafka.client.admin import KafkaAdmin, run
from workorders.kafka.client.settings import client_settings
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.ledger import batches
from workorders.kafka.planning.planner import Plan, plan_batch

_UNDONE = "No offset was committed: messages wait in Kafka, and the next try starts each batch without a Dag run."


class PlanBatchOperator(BaseOperator):
    """Records the next batch of a trigger, and starts the ingest runs of the unfinished batches without an active one.

    These are the new one, and those whose Dag run was deleted or has ended. An active Dag run is not changed.

    Args:
        definition: the trigger.
        ingest_dag_id: the Dag that executes the batches.

    Returns the ids of the Dag runs that it started, oldest batch first.
    """

    template_fields: Sequence[str] = ("ingest_dag_id",)
    operator_extra_links = (PageLink("Kafka trigger"),)
    ui_color = "#e8f1fa"

    def __init__(self, *, definition: KafkaTriggerDefinition, ingest_dag_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.definition = definition
        self.ingest_dag_id = ingest_dag_id
        self.page = ("kafka", definition.name)

    def execute(self, context: Context) -> list[str]:
        """Plan, and start the ingest of unfinished batches without an active Dag run.

        Raises:
            TaskFailedError: Kafka, the database or Airflow did not answer or refused us, or the stall of a partition
                began that Kafka cannot answer for. The next try starts what was planned.
        """
        where = f"Trigger {self.definition.name}"
        with (
            explain_failures(self, context, where, _UNDONE),
            connect(database_url(self.definition.database_connection), application_name="workorders plan") as database,
        ):
            schema.require_sequences_ahead(database)
            plan = self._plan(database)
            send_alerts(self.definition, claim_alerts(self.definition, database, self.log), context, self.log)
            started = self._start(database, self._list_inactive(database, plan.batch_id), plan)
            if plan.stalled:
                raise TaskFailedError(" ".join(plan.stalled))
            return started

    def _plan(self, database: Connection) -> Plan:
        """Record the next batch, and log where reading begins in what is new, and what Kafka could not answer for."""
        cluster = KafkaAdmin(client_settings(kafka_settings(self.definition.kafka_connection)))
        plan = run(plan_batch(database, cluster, self.definition))
        for sentence in plan.recorded:
            self.log.info("Recorded: %s.", sentence)
        if plan.batch_id is None:
            self.log.info("Nothing to plan for trigger %s.", self.definition.name)
        else:
            self.log.info("Planned batch %s: %s", plan.batch_id, plan.label)
        for error in plan.errors.values():
            self.log.warning("Trigger %s: %s", self.definition.name, error)
        return plan

    def _list_inactive(self, database: Connection, new: int | None) -> list[int]:
        """Return the batches that need a Dag run and have no active one, oldest first; the new one has none."""
        name = self.definition.name
        older = [batch_id for batch_id in batches.list_unfinished(database, name) if batch_id != new]
        database.commit()  # no transaction waits for an answer of Airflow
        at_work = active(DagRuns(self.ingest_dag_id), older)
        # Again, because a batch that finished meanwhile has no active run either.
        return [batch_id for batch_id in batches.list_unfinished(database, name) if batch_id not in at_work]

    def _start(self, database: Connection, batch_ids: Iterable[int], plan: Plan) -> list[str]:
        """Start the ingest runs of batches, and return the ids of the started ones; one refusal stops no other."""
        dag_runs = DagRuns(self.ingest_dag_id)
        started: list[str] = []
        failures: list[str] = []
        for batch_id in batch_ids:
            try:
                is_new = batch_id == plan.batch_id
                label = plan.label if is_new else batches.load(database, batch_id).label
                database.commit()  # no transaction waits for an answer of Airflow
                if dispatch(dag_runs, batch_id, label, self.log, is_new=is_new):
                    started.append(dag_ids.batch(batch_id))
            except (AirflowRuntimeError, InputUnreadableError) as error:
                name = dag_ids.batch(batch_id)
                failures.append(f"the run {name} of Dag {self.ingest_dag_id} was not started: {reason(error)}")
                if len(failures) > 1 and not dag_runs.has_answered:
                    break  # Airflow is unavailable, and each further request would last as long
        for failure in failures[1:]:
            self.log.error("Trigger %s: %s", self.definition.name, failure)
        if failures:
            raise TaskFailedError(failures[0])
        return started
