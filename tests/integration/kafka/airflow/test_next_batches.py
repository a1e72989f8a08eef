"""When a task takes a trigger's next batches; the batches are ingested in the test's process."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from local_stack.stack import LocalStack
from support.dag_runs import DagRuns
from support.in_process_trigger import InProcessTrigger
from support.topics import Topics
from workorders.airflow.dag_runs import client
from workorders.core.postgres.connection import connect
from workorders.kafka.airflow import next_batches
from workorders.kafka.airflow.next_batches import NextBatches
from workorders.kafka.ledger import batches
from workorders.kafka.ledger.attempt_lock import attempt_lock

pytestmark = pytest.mark.integration

BATCH_SECONDS = 1.0


@dataclass
class Clock:
    """A clock that only moves while the task sleeps or ingests."""

    now: float = 0.0
    sleeps: int = 0
    on_sleep: Callable[[int], object] = lambda _: None

    def monotonic(self) -> float:
        """Return the time in seconds."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        self.sleeps += 1
        self.on_sleep(self.sleeps)


@dataclass
class Taking:
    """A trigger with full batches of ten messages, and the task of its first batch, which has one."""

    trigger: InProcessTrigger
    topics: Topics
    clock: Clock
    begun: list[float] = field(default_factory=list)
    """When each batch that the task took began."""

    def produce(self, count: int) -> None:
        """Let so many messages arrive."""
        self.topics.produce(self.trigger.definition.topics[0], [b"{}"] * count)

    def take(self, on_batch: Callable[[int], object] = lambda _: None) -> list[float]:
        """Let the task ingest its own batch and take all others; return when each of these began."""
        own = self.trigger.plan().batch_id
        assert own is not None
        self.trigger.attempt(own)

        def ingest(batch_id: int) -> None:
            self.begun.append(self.clock.now)
            self.trigger.attempt(batch_id)
            self.clock.now += BATCH_SECONDS
            on_batch(len(self.begun))

        url = self.trigger.stack.database_url
        with connect(url, autocommit=True) as database, attempt_lock(url, own) as lock:
            NextBatches(
                batches.load(database, own),
                lock,
                self.trigger.definition,
                listener=client.DagRuns("a_listener"),
                ingest=client.DagRuns("an_ingest"),
                database=database,
                cluster=self.trigger.cluster,
                log=logging.getLogger(__name__),
            ).take(ingest)
        return self.begun


@pytest.fixture
def taking(stack: LocalStack, topics: Topics, name: str, monkeypatch: pytest.MonkeyPatch) -> Taking:
    topics.create(name)
    topics.produce(name, [b"{}"])
    DagRuns.in_place(monkeypatch)
    clock = Clock()
    monkeypatch.setattr(next_batches, "time", clock)
    return Taking(InProcessTrigger(stack, name, topics=[name], max_messages=10, linger=3.0), topics, clock)


@pytest.mark.parametrize(("arrives", "begun"), [(3, [3.0]), (4, [])])
def test_a_task_waits_for_further_messages_as_long_as_it_lingers(
    taking: Taking, arrives: int, begun: list[float]
) -> None:
    taking.clock.on_sleep = lambda sleeps: taking.produce(1) if sleeps == arrives else None
    assert taking.take() == begun


def test_a_task_rests_after_a_small_batch_though_messages_wait(taking: Taking) -> None:
    taking.clock.on_sleep = lambda sleeps: taking.produce(1) if sleeps == 1 else None
    begun = taking.take(lambda batch: taking.produce(1) if batch < 3 else None)
    assert begun == [1.0, 6.0, 11.0]  # a batch takes one second, and the rest four


def test_a_large_backlog_ends_the_rest(taking: Taking) -> None:
    taking.clock.on_sleep = lambda sleeps: taking.produce(10) if sleeps in {1, 3} else None
    assert taking.take() == [1.0, 4.0]  # the second full batch came two seconds after the first was ingested
