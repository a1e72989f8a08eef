"""The Dags that relay the outbox, one per shard: a sensor waits in the triggerer, and a task sends."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, BaseOperator, Context

from workorders import dag_ids
from workorders.airflow.connections import database_url
from workorders.airflow.dags.factories import configuration_error_dag, continuous_dag
from workorders.airflow.page_links import PageLink, page_path
from workorders.airflow.retries import describe_next_retry, unlimited_retries
from workorders.airflow.task_errors import explain_failures, log_wrapped
from workorders.airflow.triggers.polling import PollingSensor, PollingTrigger, TriggererDatabase
from workorders.core.definitions.loading import Mistake
from workorders.core.exceptions import ConfigurationError, WorkOrdersError
from workorders.kafka.airflow.connections import kafka_settings
from workorders.kafka.client.secrets import JobSecrets
from workorders.outbox.relay.definition import RelayDefinition, load_relay
from workorders.outbox.store.backlog import is_anything_waiting
from workorders.outbox.store.leases import buckets_of

_UNSENT = "Messages that were not sent wait in their table; nothing is lost."
_POLL_SECONDS = 0.5
_IDLE_SECONDS = 3600.0


class HeldMessagesError(WorkOrdersError):
    """A message or topic was refused and is held; all others were sent."""

    error_code = "WO-OUTBOX-HELD"
    retry_after_seconds = 1
    """Other messages do not wait for those that are held."""


def outbox_dags(file: Path) -> dict[str, DAG]:
    """Return the relay's Dags by their ids; if the file has a mistake, one that fails with it."""
    try:
        definition = load_relay(file)
        dags = [relay_dag(definition, shard) for shard in range(definition.shards)]
    except ConfigurationError as error:
        dags = [configuration_error_dag(Mistake(file, error), "outbox")]
    return {dag.dag_id: dag for dag in dags}


def relay_dag(definition: RelayDefinition, shard: int) -> DAG:
    """Return the Dag of a shard. While it is paused, messages wait in their table.

    Each shard has its own, because a Dag's next run starts when all tasks of the last one have ended: a shard that is
    busy or stalled would delay the others.
    """
    with continuous_dag(
        dag_ids.outbox(shard),
        description=f"Sends messages from the outbox in Postgres to Kafka: shard {shard} of {definition.shards}",
        tags=["outbox", "workorders"],
        doc_md=_DOC.format(page=page_path("outbox")),
    ) as dag:
        trigger = OutboxTrigger(
            database_connection=definition.database_connection, buckets=buckets_of(shard, definition.shards)
        )
        wait = PollingSensor(task_id="wait_for_outbox", trigger=trigger, **unlimited_retries())
        wait >> SendMessagesOperator(task_id="send_messages", definition=definition, shard=shard, **unlimited_retries())
    return dag


class OutboxTrigger(PollingTrigger):
    """Fires when a message in the buckets of a shard waits for Kafka, or a hold is due."""

    def __init__(self, *, database_connection: str, buckets: Sequence[int], **_from_another_version: Any) -> None:
        super().__init__(
            subject="Outbox",
            waiting_for="messages in the outbox",
            poll_interval=_POLL_SECONDS,
            idle_after=_IDLE_SECONDS,
        )
        self.database_connection = database_connection
        self.buckets = list(buckets)

    async def probe(self, database: TriggererDatabase) -> str | None:
        """Return that messages wait; None if none do."""
        return "Messages wait for Kafka." if await database.run(is_anything_waiting, self.buckets) else None


class SendMessagesOperator(BaseOperator):
    """Sends the waiting messages of one shard, and keeps looking for a while after the last message."""

    operator_extra_links = (PageLink("Outbox"),)
    page = ("outbox",)
    ui_color = "#e8f1fa"

    def __init__(self, *, definition: RelayDefinition, shard: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.definition = definition
        self.shard = shard

    def execute(self, context: Context) -> dict[str, int]:
        """Relay the shard; a message or topic that was refused fails the task by a `HeldMessagesError`."""
        # Only a worker needs a Kafka client; the Dag processor need not load it.
        from workorders.outbox.relay.relay import run_relay  # noqa: PLC0415

        definition = self.definition
        where = f"Outbox, shard {self.shard}"
        with explain_failures(self, context, where, _UNSENT):
            url = database_url(definition.database_connection)
            connections = JobSecrets(url, kafka_settings(definition.kafka_connection))
            result = run_relay(connections, definition, shard=self.shard)
        self.log.info("Shard %s: %s messages were sent.", self.shard, result.messages)
        if result.failures:
            what_next = describe_next_retry(
                self, context["ti"], retry_after_seconds=HeldMessagesError.retry_after_seconds
            )
            sentence = (
                f"{where}: {len(result.failures)} refusals; {result.messages} messages were sent, and what was "
                f"refused is held; all others continue. The last one: {result.failures[-1]} {what_next}"
            )
            log_wrapped(self.log, sentence)
            raise HeldMessagesError(sentence)
        return {"messages": result.messages}


_DOC = """
Sends messages from the outbox in Postgres to their Kafka topics, in the order of commits per key.

* Each shard has its own Dag: `workorders_outbox_0`, `workorders_outbox_1`, and so on.
* Pause this Dag to stop the sending of its shard. Nothing is lost: messages wait in their table.
* If a try of `send_messages` fails, the last line of its log names what was refused and is held. All others continue.
* [The page of the outbox]({page}) shows the backlog, and the holds with their reasons; there you release or purge one.
  `workorders outbox status` and `workorders outbox release` do the same.
"""
