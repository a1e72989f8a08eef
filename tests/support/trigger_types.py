"""Every trigger type as a source of events, each by the way that its events really take."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

import pytest
from airflow.sdk.exceptions import AirflowFailException

from local_stack.stack import LocalStack
from support.in_process_trigger import InProcessTrigger
from support.topics import Topics
from support.webhooks import Webhooks
from workorders.airflow.task_errors import TaskFailedError
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.exceptions import LimitReachedError
from workorders.core.postgres.connection import connect
from workorders.cron import airflow as cron_airflow
from workorders.cron.airflow import CreateScheduledOperator
from workorders.cron.definition import CronTriggerDefinition
from workorders.kafka.client.settings import client_settings
from workorders.kafka.exceptions import UnknownBatchError
from workorders.kafka.ingest.record_mapping import RecordMapping
from workorders.kafka.spark.partition_ingest import PartitionIngest
from workorders.manual import airflow as manual_airflow
from workorders.manual.airflow import CreateByHandOperator
from workorders.manual.definition import ManualTriggerDefinition
from workorders.webhook.definition import WebhookTriggerDefinition
from workorders.webhook.stored_webhooks import apply

Answer = Literal["taken", "must wait", "refused"]
"""What a source is told: taken; to come again; or that its event can be no input, or may have been deleted."""

Event = Mapping[str, Any]


class Source(ABC):
    """A trigger of some type, and events of one kind.

    Args:
        stack: where the work orders go.
        name: of the trigger and of its workflow.
        folder: an empty one.
        patch: what may be set for this test alone.
        fields: more of the trigger's definition.
    """

    type: ClassVar[str]

    def __init__(
        self, stack: LocalStack, name: str, folder: Path, patch: pytest.MonkeyPatch, fields: Mapping[str, Any]
    ) -> None:
        self.stack = stack
        self.name = name
        self.fields: dict[str, Any] = {"name": name, "workflow": name, **fields}
        self.sent: list[Event] = []
        self.workflow: WorkflowDefinition | None = None
        self.begin(folder, patch)

    @abstractmethod
    def begin(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        """Make what the source needs."""

    @abstractmethod
    def submit(self, first: int, events: list[Event]) -> Answer:
        """Submit events; `first` is the number of the first one, which is its source key."""

    @abstractmethod
    def spoil(self) -> Answer:
        """Submit an event that can be no input."""

    def add_workflow_file(self, **fields: Any) -> None:
        """Give the trigger a workflow file beside its own; the Dag of the workflow does not run."""
        self.workflow = WorkflowDefinition(name=self.name, callable="a.module:function", **fields)

    def send(self, *events: Event) -> Answer:
        """Submit new events."""
        first = len(self.sent)
        self.sent += events
        return self.submit(first, list(events))

    def send_again(self) -> Answer:
        """Submit everything again, as after an answer that was lost."""
        return self.submit(0, list(self.sent))


class KafkaSource(Source):
    """Messages of a topic, planned and ingested in one process."""

    type = "kafka"

    def begin(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.topics = Topics(self.stack.kafka_settings)
        self.topics.create(self.name)
        self.kafka_trigger = InProcessTrigger(self.stack, **self.fields)
        self.batches: list[int] = []
        self.produced = 0

    def submit(self, first: int, events: list[Event]) -> Answer:
        if first == 0 and self.batches:
            try:
                return self._ingest(*self.batches)
            except UnknownBatchError:
                return "refused"
        return self._produce([json.dumps(event).encode() for event in events])

    def spoil(self) -> Answer:
        return self._produce([b"[1]"])

    def _produce(self, values: list[bytes]) -> Answer:
        self.topics.produce(self.name, values)
        self.kafka_trigger.definition = self.kafka_trigger.definition.with_workflow(self.workflow)
        planned = self.kafka_trigger.plan()
        assert planned.batch_id is not None
        self.batches.append(planned.batch_id)
        return self._ingest(planned.batch_id)

    def _ingest(self, *batch_ids: int) -> Answer:
        """Attempt batches; the second attempt at one that is finished is a replay."""
        errors: list[str | None] = []
        for batch_id in batch_ids:
            attempts = self.kafka_trigger.prepare(batch_id).attempts
            ingest = PartitionIngest(
                self.stack.database_url,
                client_settings(self.stack.kafka_settings),
                RecordMapping.of(self.kafka_trigger.definition),
                attempts,
            )
            errors += [ingest.ingest_without_spark(attempt).error for attempt in attempts]
        return "must wait" if any(errors) else "taken"


class WebhookSource(Source):
    """Requests, with an `Idempotency-Key` each."""

    type = "webhook"

    def begin(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.webhooks = Webhooks({"workorders_db": self.stack.database_url}, from_database=True)
        self._deploy()

    def add_workflow_file(self, **fields: Any) -> None:
        super().add_workflow_file(**fields)
        self._deploy()

    def _deploy(self) -> None:
        definition = WebhookTriggerDefinition.model_validate({"authentication": "public", **self.fields})
        with connect(self.stack.database_url) as connection:
            apply(connection, [definition.with_workflow(self.workflow)])

    def submit(self, first: int, events: list[Event]) -> Answer:
        answers = [
            self._post(json.dumps(event).encode(), f"event-{number}")
            for number, event in enumerate(events, start=first)
        ]
        return next((answer for answer in answers if answer != "taken"), "taken")

    def spoil(self) -> Answer:
        return self._post(b"[1]", "spoilt")

    def _post(self, body: bytes, key: str) -> Answer:
        answer = self.webhooks.post(self.name, body, Idempotency_Key=key)
        if answer.is_success:
            return "taken"
        if "retry-after" in answer.headers:
            return "must wait"
        return "refused"


class CronSource(Source):
    """Intervals of a schedule; the definition contains what an interval's input is."""

    type = "cron"

    def begin(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.hours: set[int] = set()
        patch.setattr(cron_airflow, "database_url", lambda _: self.stack.database_url)

    def submit(self, first: int, events: list[Event]) -> Answer:
        answers = [self._run(number, {"input": event}) for number, event in enumerate(events, start=first)]
        return next((answer for answer in answers if answer != "taken"), "taken")

    def spoil(self) -> Answer:
        # No schedule can be defined with an input that is none, and an output that is none is another test's.
        with pytest.raises(ValueError, match="expected a mapping"):
            self._run(0, {"input": [1]})
        return "refused"

    def _run(self, hour: int, fields: dict[str, Any]) -> Answer:
        definition = CronTriggerDefinition.model_validate({**self.fields, "schedule": "@hourly", **fields})
        definition = definition.with_workflow(self.workflow)
        end = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(hours=hour)
        context: Any = {
            "data_interval_start": end - timedelta(hours=1),
            "data_interval_end": end,
            "dag_run": SimpleNamespace(
                run_type="scheduled", run_after=end, clear_number=int(hour in self.hours), conf={}
            ),
        }
        self.hours.add(hour)
        return _execute(CreateScheduledOperator(task_id="create_work_order", definition=definition), context)


class ManualSource(Source):
    """Forms that a person fills in, each with a key."""

    type = "manual"

    def begin(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(manual_airflow, "database_url", lambda _: self.stack.database_url)

    def submit(self, first: int, events: list[Event]) -> Answer:
        answers = [self._submit(f"event-{number}", event) for number, event in enumerate(events, start=first)]
        return next((answer for answer in answers if answer != "taken"), "taken")

    def spoil(self) -> Answer:
        return self._submit("spoilt", [1])

    def _submit(self, key: str, body: object) -> Answer:
        definition = ManualTriggerDefinition.model_validate(self.fields).with_workflow(self.workflow)
        run = SimpleNamespace(dag_id="a", run_id=key, triggering_user_name="ada")
        context: Any = {"params": {"body": body, "actor": None, "reason": "a test", "key": key}, "dag_run": run}
        return _execute(CreateByHandOperator(task_id="create_work_order", definition=definition), context)


def _execute(operator: Any, context: Any) -> Answer:
    try:
        operator.execute({**context, "ti": SimpleNamespace(try_number=1, max_tries=1)})
    except AirflowFailException:
        return "refused"
    except TaskFailedError as error:
        # The task reports it in a whole sentence, and is tried again.
        if isinstance(error.__cause__, LimitReachedError):
            return "must wait"
        raise
    return "taken"


SOURCES = {source.type: source for source in (CronSource, KafkaSource, ManualSource, WebhookSource)}
MakeSource = Callable[..., Source]
"""Makes a source with more of its trigger's definition."""
