"""The DAGs that relay the outbox, one a shard: a sensor waits in the triggerer, a task drains the shard."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, BaseOperator, RetryDecision

from workorders.airflow.connections import database_url
from workorders.airflow.dags.factories import always_running
from workorders.airflow.dags.trigger_dags import refused_dag
from workorders.airflow.retries import EndlessRetries, endless_retries, next_try
from workorders.airflow.task_errors import explained, readable
from workorders.airflow.triggers.polling import WaitingSensor
from workorders.core.exceptions import ConfigurationError, WorkOrdersError
from workorders.kafka.airflow.connections import kafka_settings
from workorders.kafka.airflow.outbox_trigger import OutboxTrigger
from workorders.kafka.client.secrets import Connections
from workorders.kafka.outbox_relay.definition import RelayDefinition, load_relay
from workorders.outbox.store.settings import buckets_of

if TYPE_CHECKING:
    from airflow.sdk import Context

DAG_ID = "outbox_relay"
"""Of the first shard, which is there in every division; the others' numbers follow it."""

_UNSENT = "What was not sent waits in its table, and nothing is lost."
_POLL_SECONDS = 0.5
_IDLE_AFTER = timedelta(hours=1)
_AFTER_REFUSAL = timedelta(seconds=1)


class HeldMessagesError(WorkOrdersError):
    """Something was refused and is held; all that could be sent was sent."""

    error_code = "WO-OUTBOX-HELD"


class RelayRetries(EndlessRetries):
    """Goes on at once after a refusal: what was refused is held, and all others are not to wait for it."""

    def evaluate(
        self, exception: BaseException, try_number: int, max_tries: int, context: "Context | None" = None
    ) -> RetryDecision:
        """Return the wait after this failure."""
        if isinstance(exception, HeldMessagesError):
            return RetryDecision.retry(delay=_AFTER_REFUSAL, reason="what was refused is held; all others go on")
        return super().evaluate(exception, try_number, max_tries, context)


def outbox_dags(file: Path) -> dict[str, DAG]:
    """Return the relay's DAGs by their ids; where the file has a mistake, one that fails and says so."""
    try:
        definition = load_relay(file)
        dags = [relay_dag(definition, shard) for shard in range(definition.shards)]
    except ConfigurationError as error:
        dags = [refused_dag(file, error)]
    return {dag.dag_id: dag for dag in dags}


def relay_dag(definition: RelayDefinition, shard: int) -> DAG:
    """Return the DAG of a shard. Pausing it stops the sending; messages then wait in their table.

    Each shard has one of its own, for the next run of a DAG begins when all tasks of the last one have ended: a shard
    that is busy, or stands still, would keep the others from starting.
    """
    with always_running(
        f"{DAG_ID}_{shard}" if shard else DAG_ID,
        description=f"Carries messages from the outbox in Postgres to Kafka: shard {shard} of {definition.shards}",
        tags=["outbox", "workorders"],
        doc_md=_DOC,
        # A part of the keys must not stop because there are more shards than before.
        is_paused_upon_creation=False if shard else None,
    ) as dag:
        wait = WaitForOutboxSensor(task_id="wait_for_messages", definition=definition, shard=shard, **endless_retries())
        retries = {**endless_retries(), "retry_policy": RelayRetries()}
        drain = DrainOutboxOperator(task_id="drain", definition=definition, shard=shard, **retries)
        wait >> drain
    return dag


class WaitForOutboxSensor(WaitingSensor):
    """Waits until messages of a shard are in the outbox, or the time of something held has come.

    Args:
        definition: how the outbox is relayed.
        shard: number of the shard.
        start_from_trigger: whether the triggerer takes the task straight from the scheduler.
    """

    template_fields: Sequence[str] = ("database_connection",)
    trigger_class = OutboxTrigger

    def __init__(
        self, *, definition: RelayDefinition, shard: int, start_from_trigger: bool = True, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.database_connection = definition.database_connection
        self.buckets = buckets_of(shard, definition.shards)
        self.start(from_trigger=start_from_trigger)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the trigger."""
        return {
            "database_connection": self.database_connection,
            "buckets": self.buckets,
            "poll_interval": _POLL_SECONDS,
            "idle_after": _IDLE_AFTER.total_seconds(),
        }


class DrainOutboxOperator(BaseOperator):
    """Sends what waits in one shard, and keeps looking for a while after the last message.

    Args:
        definition: how the outbox is relayed.
        shard: number of the shard.
    """

    ui_color = "#e8f1fa"

    def __init__(self, *, definition: RelayDefinition, shard: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.definition = definition
        self.shard = shard

    @readable
    def execute(self, context: "Context") -> dict[str, int]:
        """Drain the shard.

        Raises:
            HeldMessagesError: something was refused meanwhile; it is held, and all else was sent.
            TaskFailedError: Kafka or the database failed; the text says why.
        """
        # Only a worker needs it, and the processor of DAGs need not wait for a Kafka client.
        from workorders.kafka.outbox_relay.relay import drain  # noqa: PLC0415

        definition = self.definition
        with explained(self, context, f"Outbox, shard {self.shard}", _UNSENT):
            drained = drain(
                Connections(database_url(definition.database_connection), kafka_settings(definition.kafka_connection)),
                definition,
                shards=[self.shard],
                warm_for=definition.warm_for,
                longest=definition.longest_task,
            )
        self.log.info("Shard %s: %s messages were sent.", self.shard, drained.messages)
        if drained.failures:
            raise HeldMessagesError(
                f"Outbox, shard {self.shard}: {len(drained.failures)} refusals; {drained.messages} messages were sent, "
                f"and what was refused is held. The last one: {drained.failures[-1]} {self._next_look(context)}"
            )
        return {"messages": drained.messages}

    def _next_look(self, context: "Context") -> str:
        if isinstance(self.retry_policy, RelayRetries):
            return f"All others go on in {_AFTER_REFUSAL.total_seconds():.0f} s."
        return next_try(self, context["ti"])


_DOC = """
Carries messages from the outbox in Postgres to their Kafka topics, in commit order a key.

* Every shard has a DAG of its own: `outbox_relay`, then `outbox_relay_1` and so on.
* Pause this DAG to stop the sending of its shard. Nothing is lost: messages wait in their table.
* A failed try of `drain` says in the last line of its log what was refused. It is held alone; all others go on.
* `workorders outbox status` shows what waits, what is held and why; `workorders outbox release` lets it go on.
"""
