"""Triggers in Airflow that get messages at a steady rate: how long until the work orders, and until functions ended."""

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import psycopg
from confluent_kafka import Producer

from benchmarks import contents, insert_row, messages, trigger_files
from local_stack.stack import LocalStack
from local_stack.waiting import wait_until
from support.airflow_api import AirflowApi
from support.flow import Flow
from support.observed_trigger import ObservedTrigger

_READY_SECONDS: Final = 300.0
_LAST_SECONDS: Final = 300.0
_ENVIRONMENT: Final = {"AIRFLOW__CORE__PARALLELISM": "32"}
"""Airflow's default. A task that messages keep coming to holds a slot; the stack has eight on its own."""
_WORKFLOW: Final = "name: benchmark\ncallable: benchmarks.insert_row:run\n"

CREATED: Final = """
SELECT (dataclips.request ->> 'timestamp')::float8 / 1000, extract(epoch FROM orders.created_at)::float8
FROM workorders.kafka_ledger AS ledger
JOIN workorders.work_orders AS orders ON orders.stream_id = ledger.stream_id
JOIN workorders.dataclips ON dataclips.id = orders.id
WHERE ledger.topic = ANY (%(topics)s) AND (dataclips.request ->> 'timestamp')::float8 / 1000 >= %(begun)s
"""
INSERTED: Final = """
SELECT extract(epoch FROM produced_at)::float8, extract(epoch FROM inserted_at)::float8
FROM inserted_rows WHERE topic = ANY (%(topics)s) AND extract(epoch FROM produced_at)::float8 >= %(begun)s
"""


@dataclass(frozen=True, slots=True)
class Waited:
    """One message."""

    produced: float
    """Seconds from the first message to this one, both by their timestamps."""
    seconds: float
    """Seconds from the message's timestamp to what became of it, by Postgres's clock."""


class Messages:
    """Messages that were produced, and what Postgres has of them."""

    def __init__(self, stack: LocalStack) -> None:
        self.stack = stack
        self.sent: Counter[str] = Counter()
        """How many, by topic."""

    def produce(self, topics: Sequence[str], per_second: float, seconds: float) -> Callable[[str], list[Waited]]:
        """Produce evenly, to one topic after the other; what is returned waits for what a query has of each message.

        Raises:
            RuntimeError: a message did not reach Kafka; later, one was not found in time, or was found twice.
        """
        producer = Producer({"bootstrap.servers": self.stack.bootstrap_servers, "linger.ms": 0})
        count, begun, start = round(per_second * seconds), int(1000 * time.time()) / 1000, time.monotonic()
        for number in range(count):
            time.sleep(max(0.0, start + number / per_second - time.monotonic()))
            topic = topics[number % len(topics)]
            position = self.sent[topic]
            producer.produce(topic, messages.value(position), messages.key(position), headers=[messages.HEADER])
            producer.poll(0)
            self.sent[topic] += 1
        if left_over := producer.flush(60):
            raise RuntimeError(f"{left_over} messages did not reach Kafka.")
        parameters = {"topics": list(topics), "begun": begun}
        return lambda query: self._waits(query, parameters, count)

    def _waits(self, query: str, parameters: Mapping[str, object], count: int) -> list[Waited]:
        with psycopg.connect(self.stack.database_url, autocommit=True) as connection:

            def found() -> int:
                row = connection.execute(f"SELECT count(*) FROM ({query}) AS found".encode(), parameters).fetchone()
                return 0 if row is None else int(row[0])

            wait_until(lambda: found() >= count, seconds=_LAST_SECONDS)
            rows = sorted(connection.execute(query.encode(), parameters).fetchall())
        if len(rows) != count:
            raise RuntimeError(f"Postgres has {len(rows)} of {count} messages {_LAST_SECONDS:g} s after the last one.")
        return [Waited(produced - rows[0][0], done - produced) for produced, done in rows]


class Triggers:
    """Triggers that wait for messages, each on its own topic, by name."""

    def __init__(self, stack: LocalStack, topics: Mapping[str, str]) -> None:
        self.stack = stack
        self.messages = Messages(stack)
        self._topics = topics
        self._api = AirflowApi(stack.airflow_url)

    def produce(self, names: Sequence[str], per_second: float, seconds: float) -> Callable[[str], list[Waited]]:
        """Produce to the topics of triggers as `Messages.produce` does, when no task works for earlier messages."""
        self.until_idle()
        return self.messages.produce([self._topics[name] for name in names], per_second, seconds)

    def until_idle(self) -> None:
        """Wait until no task works.

        Raises:
            RuntimeError: one did minutes later.
        """
        if not wait_until(lambda: count_tasks(self._api, "running", "queued") == 0, seconds=_READY_SECONDS):
            raise RuntimeError(f"Tasks of earlier messages were running {_READY_SECONDS:g} s later.")

    def produce_when_idle(self, name: str) -> Waited:
        """Produce one message when the trigger waits, and return how long its work order took; then its tasks ended.

        Raises:
            AssertionError: the trigger did not wait, or its tasks did not end in time.
        """
        flow = Flow(self._api, ObservedTrigger.on_stack(self.stack, name, self._topics[name]))
        flow.until_waiting()
        (waited,) = self.messages.produce([self._topics[name]], 1, 1)(CREATED)
        flow.until_settled()
        return waited

    def require_right(self) -> None:
        """Compare all work orders with the messages.

        Raises:
            RuntimeError: one is missing, or is a wrong one.
        """
        sent = {topic: self.messages.sent[topic] for topic in self._topics.values()}
        places = ((topic, 0, number, number) for topic, count in sent.items() for number in range(count))
        contents.expect(self.stack.database_url, places)
        contents.require_right(self.stack.database_url, contents.WORK_ORDERS, sum(sent.values()))


@contextmanager
def waiting_triggers(
    connections: Mapping[str, str],
    say: Callable[[str], None],
    *,
    executed: bool,
    environment: Mapping[str, str] = MappingProxyType({}),
    dags_folder: Path | None = None,
) -> Iterator[Triggers]:
    """Start a stack with triggers, by the names of their Spark connections; at the end, compare all work orders.

    Args:
        connections: names of triggers, and of the Airflow connections by which they reach Spark.
        say: what to do with a line of progress.
        executed: whether the function that inserts a row is executed for each work order.
        environment: variables to add to those of the stack.
        dags_folder: the Dag files, the repository's unless given.
    """
    with tempfile.TemporaryDirectory(prefix="triggers-") as home:
        triggers_folder, workflows_folder = Path(home, "triggers"), Path(home, "workflows")
        triggers_folder.mkdir()
        workflows_folder.mkdir()
        topics = {name: trigger_files.write(triggers_folder, name, connection=to) for name, to in connections.items()}
        if executed:
            (workflows_folder / "benchmark.yaml").write_text(_WORKFLOW, encoding="utf-8")
        with LocalStack(
            airflow=True,
            spark_connect=True,
            triggers_folder=triggers_folder,
            workflows_folder=workflows_folder,
            dags_folder=dags_folder,
            environment={**_ENVIRONMENT, **environment},
            name="bench-steady",
            say=say,
        ) as stack:
            create_table(stack)
            messages.create_topics(stack.bootstrap_servers, list(topics.values()), 1)
            until_waiting(stack, len(topics))
            triggers = Triggers(stack, topics)
            yield triggers
            triggers.require_right()


def create_table(stack: LocalStack) -> None:
    """Create the table that functions insert rows into."""
    with psycopg.connect(stack.database_url) as connection:
        connection.execute(insert_row.CREATE_TABLE.encode())


@contextmanager
def busy_machine(stack: LocalStack, processes: int) -> Iterator[None]:
    """Let so many other processes compute all the time."""
    others = [
        stack.process(f"busy-{number}", [sys.executable, "-c", "while True: pass"]) for number in range(processes)
    ]
    for other in others:
        other.start()
    try:
        yield
    finally:
        for other in others:
            other.stop()


def until_waiting(stack: LocalStack, triggers: int) -> None:
    """Wait until each of so many triggers has recorded where reading begins, and waits for messages.

    Raises:
        RuntimeError: they did not within minutes.
    """
    api = AirflowApi(stack.airflow_url)
    query = "SELECT count(DISTINCT topic) FROM workorders.kafka_ledger"
    with psycopg.connect(stack.database_url, autocommit=True) as connection:
        known = wait_until(lambda: connection.execute(query).fetchall() >= [(triggers,)], seconds=_READY_SECONDS)
    waiting = known and wait_until(lambda: count_tasks(api, "deferred") >= triggers, seconds=_READY_SECONDS)
    api.close()
    if not waiting:
        raise RuntimeError(f"{triggers} triggers did not wait for messages after {_READY_SECONDS:g} s.")


def count_tasks(api: AirflowApi, *states: str) -> int:
    """Return how many task instances of all Dags are in one of these states."""
    return int(api.get("/dags/~/dagRuns/~/taskInstances", state=states, limit=1)["total_entries"])
