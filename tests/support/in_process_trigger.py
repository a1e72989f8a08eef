"""Plans and ingests from a real broker into a real Postgres without the JVM: Airflow and Spark in one process."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition

from local_stack.stack import LocalStack
from support.attempting import preflight
from support.definitions import define
from support.eventually import eventually
from support.record_batches import record_batch
from support.topics import Topics
from support.work_orders import accepted
from workorders.core.attribution import Attribution
from workorders.core.items import Item
from workorders.core.postgres.connection import Connection, connect
from workorders.kafka.client.admin import KafkaAdmin, run
from workorders.kafka.client.range_consumer import read_range
from workorders.kafka.client.secrets import JobSecrets
from workorders.kafka.client.settings import client_settings
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.exceptions import KafkaUnavailableError
from workorders.kafka.ingest.attempt import Attempt, RangeOutcome
from workorders.kafka.ingest.ingest_attempt import IngestAttempt, ingest_attempt
from workorders.kafka.ingest.log_checks import PreflightResult, verify_range_end, verify_topic_unchanged
from workorders.kafka.ingest.record_mapping import RecordMapping
from workorders.kafka.ingest.transaction import ingest
from workorders.kafka.ledger import batches, positions, stalls
from workorders.kafka.ledger.positions import stream_name
from workorders.kafka.partitions import Partition
from workorders.kafka.planning.planner import Plan, plan_batch
from workorders.kafka.recovery.decisions import Decision
from workorders.kafka.recovery.resolution import DecisionRequest, apply, preview
from workorders.kafka.spark.partition_ingest import PartitionIngest

SECONDS = 30.0
TEN = [b"{}"] * 10


class InProcessTrigger:
    """One trigger whose batches the test plans and ingests in its own process."""

    def __init__(
        self, stack: LocalStack, name: str, *, registry: Mapping[str, Any] | None = None, **fields: Any
    ) -> None:
        self.stack = stack
        self.registry = registry
        self.definition = define(name, **fields)
        self.cluster = KafkaAdmin(client_settings(stack.kafka_settings))

    def plan(self) -> Plan:
        """Plan the next batch."""
        with connect(self.stack.database_url) as own:
            return run(plan_batch(own, self.cluster, self.definition))

    def batch(self) -> int:
        """Plan the next batch, which has something to read, and return its number."""
        batch_id = self.plan().batch_id
        assert batch_id is not None
        return batch_id

    @contextmanager
    def begun(self, batch_id: int) -> Iterator[IngestAttempt]:
        """Open an attempt at a batch, and take the batch."""
        secrets = JobSecrets(self.stack.database_url, self.stack.kafka_settings, self.registry)
        with ingest_attempt(secrets, batch_id, application_name="test") as attempt:
            attempt.begin(self.definition, is_retry=False, report=lambda _: None)
            yield attempt

    def prepare(self, batch_id: int) -> PreflightResult:
        """Begin an attempt: take an epoch, hold the batch against Kafka, and write down what cannot be read."""
        with connect(self.stack.database_url, autocommit=True) as own:
            epoch = positions.take_epoch(own, batch_id)
            batch = batches.load(own, batch_id)
            prepared = preflight(self.stack.kafka_settings, batch, epoch)
            stalls.record(own, batch, epoch, {range_: str(error) for range_, error in prepared.unreadable.items()})
        return prepared

    def ingest(self, attempt: Attempt, *, after_the_read: Callable[[], object] = lambda: None) -> None:
        """Read a range from Kafka and commit its work orders; something may happen after its last message was read."""
        settings = client_settings(self.stack.kafka_settings)

        def items() -> Iterator[Item]:
            stream = stream_name(attempt.range.partition, attempt.generation)
            for offset in self._offsets(attempt):
                yield accepted(stream, offset)
            after_the_read()

        with connect(self.stack.database_url) as own:
            ingest(
                own,
                attempt,
                items(),
                partial(verify_range_end, settings, attempt.range),
                partial(verify_topic_unchanged, settings, attempt),
            )

    def ingest_messages(self, batch_id: int) -> list[RangeOutcome]:
        """Read a batch's messages from Kafka, and ingest them as Spark's workers do."""
        return [self.ingest_first(attempt) for attempt in self.prepare(batch_id).attempts]

    def ingest_first(self, attempt: Attempt, count: int | None = None) -> RangeOutcome:
        """Read the first messages of a range, or all of them, and ingest them."""
        with connect(self.stack.database_url) as own:
            definition = KafkaTriggerDefinition.model_validate(batches.load(own, attempt.batch_id).definition)
        settings = client_settings(self.stack.kafka_settings)
        task = PartitionIngest(
            self.stack.database_url, settings, RecordMapping.of(definition, self.registry), [attempt]
        )
        with closing(read_range(settings, attempt.range, attempt.read_from)) as records:
            return task.ingest(attempt, [record_batch(islice(records, count))])

    def attempt(self, batch_id: int) -> PreflightResult:
        """Make one attempt at a batch: what can be read is ingested, what cannot is stalled."""
        prepared = self.prepare(batch_id)
        for attempt in prepared.attempts:
            self.ingest(attempt)
        return prepared

    def until_idle(self) -> list[PreflightResult]:
        """Plan and attempt until nothing is left to plan."""
        made = []
        while (planned := self.plan()).batch_id is not None:
            made.append(self.attempt(planned.batch_id))
        return made

    def stalled_batch(self) -> int:
        """Plan a batch of which nothing can be read, and return its number."""
        planned = self.plan()
        assert planned.batch_id is not None
        prepared = self.attempt(planned.batch_id)
        assert prepared.unreadable
        assert not prepared.attempts
        return planned.batch_id

    def recreated(self, delete: Callable[[], object], create: Callable[[], object]) -> None:
        """Delete the topic and create it again, until Kafka has another id and knows its leaders."""
        before = {partition.topic_id for partition in self._partitions()}
        delete()
        create()

        def made() -> bool:
            now = self._partitions()
            try:
                logs = run(self.cluster.offsets(now)).require()
            except KafkaUnavailableError:  # a leader that does not know yet that it is one
                return False
            return bool(logs) and bool({partition.topic_id for partition in now} - before)

        eventually(made, seconds=SECONDS, what="a topic of another id")

    def _partitions(self) -> list[Partition]:
        return run(self.cluster.partitions(self.definition.topics)).found

    def _offsets(self, attempt: Attempt) -> Iterator[int]:
        if attempt.read_from == attempt.range.end:
            return
        partition = attempt.range.partition
        consumer = Consumer(
            {
                **client_settings(self.stack.kafka_settings),
                "group.id": "tests-never-join",
                "enable.auto.commit": "false",
                "enable.partition.eof": "true",
                "auto.offset.reset": "error",
            }
        )
        try:
            consumer.assign([TopicPartition(partition.topic, partition.partition, attempt.read_from)])
            while (message := consumer.poll(SECONDS)) is not None:
                error = message.error()
                offset = message.offset()
                assert error is None or error.code() == KafkaError._PARTITION_EOF, error
                if error is not None or offset is None or offset >= attempt.range.end:
                    return
                yield offset
                if offset == attempt.range.end - 1:
                    return
        finally:
            consumer.close()


def after_ten(stack: LocalStack, topics: Topics, name: str) -> InProcessTrigger:
    """Return a trigger that has ingested ten messages of its one partition; the topic has its name."""
    topics.create(name)
    topics.produce(name, TEN)
    trigger = InProcessTrigger(stack, name)
    trigger.until_idle()
    return trigger


class Decided(NamedTuple):
    """Decisions that were made."""

    decisions: list[Decision]
    numbers: list[int]
    warnings: list[str]


def decided(stack: LocalStack, cluster: KafkaAdmin, request: DecisionRequest) -> Decided:
    """Consider and make a decision on a separate connection, as the command does."""
    with connect(stack.database_url) as own:
        considered = preview(own, cluster, request)
        group = f"workorders-{request.trigger}"
        return Decided(considered, *apply(own, cluster, considered, Attribution("ada", "a test"), group=group))


def kept(connection: Connection, trigger: str) -> dict[str, list[int]]:
    """Return the positions of all work orders of a trigger, by stream, sorted; a doubled one is there twice."""
    rows = connection.execute(
        """
        SELECT source_streams.name, array_agg(work_orders.position ORDER BY work_orders.position)
        FROM workorders.work_orders
        JOIN workorders.source_streams ON source_streams.id = work_orders.stream_id
        JOIN workorders.triggers ON triggers.id = work_orders.trigger_id
        WHERE triggers.name = %s GROUP BY 1
        """,
        (trigger,),
    ).fetchall()
    connection.rollback()
    return dict(rows)
