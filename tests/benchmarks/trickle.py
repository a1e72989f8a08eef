"""How long messages take to become work orders while each of many triggers gets one per second."""

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg
from confluent_kafka import Producer

from benchmarks import contents, messages, trigger_files
from local_stack.stack import LocalStack
from local_stack.waiting import wait_until
from support.airflow_api import AirflowApi

_READY_SECONDS: Final = 300.0
_LAST_SECONDS: Final = 300.0
_LOOK_SECONDS: Final = 0.05
_ENVIRONMENT: Final = {"AIRFLOW__CORE__PARALLELISM": "32"}
"""Airflow's default. A task that messages keep coming to holds a slot; the stack has eight on its own."""


@dataclass(frozen=True, slots=True)
class Waited:
    """One message."""

    produced: float
    """Seconds from the first message to this one."""
    seconds: float
    """Seconds from this message to the commit of its work order."""


def waits_of_messages(triggers: int, seconds: float, say: Callable[[str], None]) -> list[Waited]:
    """Produce a message per second for each of so many triggers, and wait for their work orders.

    The batches run on a Spark Connect server that has run none before. All work orders are compared with the messages.

    Raises:
        RuntimeError: a message did not become a work order in time, or is a wrong one.
    """
    with tempfile.TemporaryDirectory(prefix="triggers-") as folder:
        topics = [trigger_files.write(Path(folder), f"trickle_{number:02}") for number in range(triggers)]
        with LocalStack(
            airflow=True,
            spark_connect=True,
            triggers_folder=Path(folder),
            environment=_ENVIRONMENT,
            name="bench-trickle",
            say=say,
        ) as stack:
            messages.create_topics(stack.bootstrap_servers, topics, 1)
            until_waiting(stack, triggers)
            with psycopg.connect(stack.database_url, autocommit=True) as connection:
                load = _Load(connection, topics)
                load.produce(stack.bootstrap_servers, triggers, seconds)
                load.until_done()
            count = load.count
            contents.expect(
                stack.database_url,
                ((topics[number % triggers], 0, number // triggers, number) for number in range(count)),
            )
            contents.require_right(stack.database_url, contents.WORK_ORDERS, count)
            return load.waits


def until_waiting(stack: LocalStack, triggers: int) -> None:
    """Wait until each of so many triggers has recorded where reading begins, and waits for messages.

    Raises:
        RuntimeError: they did not within minutes.
    """
    api = AirflowApi(stack.airflow_url)
    with psycopg.connect(stack.database_url, autocommit=True) as connection:
        known = wait_until(lambda: len(_next_offsets(connection)) >= triggers, seconds=_READY_SECONDS)
    waiting = known and wait_until(lambda: count_tasks(api, "deferred") >= triggers, seconds=_READY_SECONDS)
    api.close()
    if not waiting:
        raise RuntimeError(f"{triggers} triggers did not wait for messages after {_READY_SECONDS:g} s.")


def count_tasks(api: AirflowApi, *states: str) -> int:
    """Return how many task instances of all Dags are in one of these states."""
    return int(api.get("/dags/~/dagRuns/~/taskInstances", state=states, limit=1)["total_entries"])


class _Load:
    """Messages that were produced, and those that were seen as work orders since."""

    def __init__(self, connection: psycopg.Connection, topics: Sequence[str]) -> None:
        self._connection = connection
        self._produced: dict[str, list[float]] = {topic: [] for topic in topics}
        self._seen = dict.fromkeys(topics, 0)
        self._begun = 0.0
        self.waits: list[Waited] = []

    @property
    def count(self) -> int:
        """How many messages were produced."""
        return sum(map(len, self._produced.values()))

    def produce(self, bootstrap_servers: str, per_second: int, seconds: float) -> None:
        """Produce evenly, to one topic after the other, and look meanwhile."""
        producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 0})
        topics, self._begun = list(self._produced), time.monotonic()
        for number in range(round(per_second * seconds)):
            while (left := self._begun + number / per_second - time.monotonic()) > 0:
                time.sleep(min(left, _LOOK_SECONDS))
                self._look()
            topic = topics[number % len(topics)]
            producer.produce(topic, messages.value(number), messages.key(number), headers=[messages.HEADER])
            self._produced[topic].append(time.monotonic())
            producer.poll(0)
        if left_over := producer.flush(60):
            raise RuntimeError(f"{left_over} messages did not reach Kafka.")

    def until_done(self) -> None:
        """Wait until the last message is a work order."""

        def done() -> bool:
            self._look()
            return len(self.waits) == self.count

        if not wait_until(done, seconds=_LAST_SECONDS):
            missing = self.count - len(self.waits)
            raise RuntimeError(f"{missing} of {self.count} messages were no work orders {_LAST_SECONDS:g} s later.")

    def _look(self) -> None:
        # A work order and its place in the ledger are committed at the same time.
        for topic, next_offset in _next_offsets(self._connection).items():
            now, produced = time.monotonic(), self._produced[topic]
            self.waits += [Waited(at - self._begun, now - at) for at in produced[self._seen[topic] : next_offset]]
            self._seen[topic] = min(next_offset, len(produced))


def _next_offsets(connection: psycopg.Connection) -> dict[str, int]:
    return dict(connection.execute("SELECT topic, next_offset FROM workorders.kafka_ledger").fetchall())
