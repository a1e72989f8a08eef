"""A backlog through Airflow: from the moment at which a trigger is unpaused to its last work order."""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg

from benchmarks import contents, messages, trigger_files
from benchmarks.create_for import empty_tables
from benchmarks.steady import count_tasks
from local_stack.stack import LocalStack
from local_stack.waiting import wait_until
from support.airflow_api import AirflowApi
from workorders.core.postgres.connection import connect

PARTITIONS: Final = 4
_WARM_UP: Final = "drain_warm_up"
_READY_SECONDS: Final = 300.0
_STOP_SECONDS: Final = 180.0


@dataclass(frozen=True, slots=True)
class Backlog:
    """Messages that wait, and how they are read."""

    messages: int
    max_messages: int
    """Of one batch."""
    way: str
    """One of `trigger_files.WAYS`."""

    @property
    def trigger(self) -> str:
        """Name of the trigger that reads it."""
        return f"drain_{self.max_messages}_{trigger_files.WAYS[self.way]}"


class Drains:
    """A stack with a paused trigger for each backlog."""

    def __init__(self, stack: LocalStack, topics: Mapping[str, str]) -> None:
        self._stack = stack
        self._topics = topics
        self._api = AirflowApi(stack.airflow_url)

    def warm_up(self) -> None:
        """Let the Spark Connect server ingest a first message.

        Raises:
            RuntimeError: it did not.
        """
        dags = {f"{name}_{kind}" for name in self._topics for kind in ("listener", "ingest")}
        if not wait_until(lambda: all(map(self._api.knows, dags)), seconds=_READY_SECONDS):
            raise RuntimeError(f"Airflow did not know all Dags after {_READY_SECONDS:g} s.")
        topic = self._produce(_WARM_UP, PARTITIONS)
        self._pause(_WARM_UP, paused=False)
        self._until(topic, PARTITIONS, _READY_SECONDS)

    def messages_per_second(self, backlog: Backlog, limit_seconds: float) -> float:
        """Let the trigger read its backlog, and return the messages per second until the last, or until the limit.

        The work orders are compared with the messages.

        Raises:
            RuntimeError: a work order is wrong or missing.
        """
        url = self._stack.database_url
        with connect(url) as connection:
            empty_tables(connection)
        topic = self._produce(backlog.trigger, backlog.messages)
        contents.expect(url, contents.spread(topic, PARTITIONS, backlog.messages))
        self._pause(backlog.trigger, paused=False)
        seconds, read = self._until(topic, backlog.messages, limit_seconds)
        self._pause(backlog.trigger, paused=True)
        if not wait_until(lambda: count_tasks(self._api, "running", "queued") == 0, seconds=_STOP_SECONDS):
            raise RuntimeError(f"Tasks of {backlog.trigger} were running {_STOP_SECONDS:g} s after it was paused.")
        contents.require_right(url, contents.WORK_ORDERS, self._read(topic))
        return read / seconds

    def _produce(self, trigger: str, count: int) -> str:
        topic = self._topics[trigger]
        messages.create_topics(self._stack.bootstrap_servers, [topic], PARTITIONS)
        messages.produce(self._stack.bootstrap_servers, topic, PARTITIONS, count)
        return topic

    def _pause(self, trigger: str, *, paused: bool) -> None:
        for kind in ("ingest", "listener"):
            self._api.set_paused(f"{trigger}_{kind}", paused=paused)

    def _until(self, topic: str, count: int, limit_seconds: float) -> tuple[float, int]:
        """Return after how many seconds how many messages were work orders: all, or as many as at the limit."""
        begun = time.monotonic()
        wait_until(lambda: self._read(topic) >= count, seconds=limit_seconds)
        return time.monotonic() - begun, self._read(topic)

    def _read(self, topic: str) -> int:
        with psycopg.connect(self._stack.database_url) as connection:
            row = connection.execute(
                "SELECT coalesce(sum(next_offset), 0)::bigint FROM workorders.kafka_ledger WHERE topic = %s", (topic,)
            ).fetchone()
        return 0 if row is None else int(row[0])


@contextmanager
def paused_triggers(backlogs: list[Backlog], say: Callable[[str], None]) -> Iterator[Drains]:
    """Start Airflow, a Spark Connect server, and a paused trigger for each backlog."""
    with tempfile.TemporaryDirectory(prefix="triggers-") as folder:
        topics = {
            backlog.trigger: trigger_files.write(
                Path(folder),
                backlog.trigger,
                connection=trigger_files.WAYS[backlog.way],
                max_messages=backlog.max_messages,
            )
            for backlog in backlogs
        }
        topics[_WARM_UP] = trigger_files.write(Path(folder), _WARM_UP)
        with LocalStack(
            airflow=True,
            spark_connect=True,
            triggers_folder=Path(folder),
            environment={"AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "True"},
            name="bench-drain",
            say=say,
        ) as stack:
            yield Drains(stack, topics)
