"""One tool under one fault: its topic, its table, its processes, and a supervisor that starts them again."""

import os
import re
import time
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Final, Self

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from compare.oracle import POISON, Sent, Verdict, judge, read_journal
from compare.peer import Peer
from faults.arrived import Message
from faults.contents import ACCEPTED, kind, value
from faults.site import PYTHON_PATH, Site
from faults.tasks import Task
from local_stack.processes import ManagedProcess
from local_stack.stack import DATABASE
from local_stack.waiting import wait_until
from support.topics import Topics

PARTITIONS: Final = 3
KEYS: Final = 4 * PARTITIONS
_TABLE: Final = """
    CREATE TABLE {table} (
        id bigserial, topic text, partition integer, "offset" bigint, key text, body jsonb, raw bytea,
        at timestamptz DEFAULT clock_timestamp(), UNIQUE (id)
    )
"""
_FOUND: Final = "SELECT (body ->> 'producer')::integer, coalesce(body ->> 'seq', '-1')::integer FROM {table} " + (
    "WHERE body IS NOT NULL ORDER BY id"
)
_PER_TICK: Final = 5
_ABORTED_SECONDS: Final = 0.7
"""Time in which the producer has aborted a transaction after its backlog."""
_MAX_RESTARTS: Final = 2
_MAX_REMEDIES: Final = 2
_LOOK_SECONDS: Final = 0.5
_BUSY: Final = 3
"""Load of each core, two tools at the same time included, with which the times apply."""
_MOST_PATIENT: Final = 3.0
_QUIET_SECONDS: Final = 4.0
"""Time for rows too many to arrive."""
_SECONDS: Final = 400.0
_ERROR: Final = re.compile(r"\b(ERROR|CRITICAL|FATAL)\b|Traceback")
_RECORD: Final = re.compile(r"^(?=.*\b(?:DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL)\b)", re.MULTILINE)
_ABOUT_BAD: Final = "The message is not"
"""What a tool logs about the bad messages, which are part of every case, is not about the fault."""
_numbers = count(1)


class Case:
    """From entering the context until leaving it."""

    def __init__(
        self, site: Site, peer: Peer, name: str, *, random: Random, messages: int, is_brief: bool = True
    ) -> None:
        number = next(_numbers)
        self.site = site
        self.peer = peer
        self.random = random
        self.messages = messages
        #: Whether no speed is measured: there is a proxy for faults, and processes start as fast as they can.
        self.is_brief = is_brief
        self.topic = f"{peer.slug}-{name}-{number}"
        self.table = f"rows_{number}"
        self.insert = f"INSERT INTO {self.table}".encode()
        self.topics = Topics(site.kafka_settings)
        #: Kept: a client that nothing refers to never answers.
        self.admin = AdminClient(site.kafka_settings)
        self.sent: list[Sent] = []
        #: What the supervisor and an operator had to do.
        self.restarts = 0
        self.remedies: list[str] = []
        #: Variables of the tool's processes from their next start on, if `forget` comes before it.
        self.variables: dict[str, str] = {}
        #: Where the tool's processes answer, for those that do.
        self.rest: dict[int, str] = {}
        self._processes: list[ManagedProcess] = []
        self._producers = 0
        self._marks: dict[Path, int] = {}

    def __enter__(self) -> Self:
        self.topics.create(self.topic, PARTITIONS)
        self.site.admin(_TABLE.format(table=self.table))
        self.site.admin(f"ALTER TABLE {self.table} OWNER TO {DATABASE}")
        self.peer.prepare(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.site.heal()
        self.stop()

    def url(self, database: str = DATABASE, scheme: str = "postgresql") -> str:
        """Return the URI of a database; if there is a proxy, it leads through that."""
        postgres = self.site.stack.postgres
        direct = postgres.url(database, scheme=scheme)
        return direct.replace(f":{postgres.port}/", f":{self.site.postgres.port}/") if self.is_brief else direct

    @property
    def patience(self) -> float:
        """Seconds in which a tool that works must have done something, on a machine as busy as it is now."""
        return _slower() * _SECONDS

    @property
    def servers(self) -> str:
        """The broker's address."""
        return self.site.stack.bootstrap_servers

    @property
    def logs(self) -> list[Path]:
        """The logs of the tool's processes."""
        return [process.log for process in self._processes]

    def start(self, installations: int = 1) -> None:
        """Start the tool, as a supervisor does at the start of a machine."""
        for number in range(len(self._processes), installations * self.peer.processes):
            command = self.peer.command(self, number)
            variables = {"PYTHONPATH": PYTHON_PATH, **command.environment, **self.variables}
            name = f"{self.topic}-{number}"
            self._processes.append(self.site.stack.process(name, command.words, variables))
        for process in self._processes:
            process.start()

    def stop(self) -> None:
        """End the tool's processes, whatever they do."""
        for process in self._processes:
            if process.running:
                process.kill()

    def again(self) -> None:
        """Kill the tool's processes with all that they started, and start them again, as a supervisor does."""
        self.stop()
        for process in self._processes:
            process.start()

    def forget(self) -> None:
        """Stop the tool, and let the next start read its command again."""
        self.stop()
        self._processes.clear()

    def pids(self) -> list[int]:
        """Return the ids of the processes whose descendants are the tool's."""
        return [*(process.pid for process in self._processes), *self.peer.servers(self)]

    def mark(self) -> None:
        """Remember where the logs end: what is logged from now on is about the fault."""
        self._marks = {log: log.stat().st_size for log in self.logs if log.exists()}

    def produce(self, count: int | None = None) -> list[Sent]:
        """Write messages of the oracle's producer, until the broker has them."""
        self._producers += 2
        journal = self.site.stack.logs / f"{self.topic}-{self._producers}.journal"
        given = {
            "servers": self.servers,
            "topic": self.topic,
            "partitions": PARTITIONS,
            "keys": KEYS,
            "producer": self._producers,
            "backlog": count or self.messages,
            "per-tick": _PER_TICK,
            "journal": journal,
        }
        words = [word for name, value in given.items() for word in (f"--{name}", str(value))]
        producer = Task(self.site.process(f"producer-{self.topic}", "faults.producer", *words))
        assert wait_until(lambda: "backlog written" in producer.output() or not producer.running, seconds=60)
        time.sleep(_ABORTED_SECONDS)
        producer.process.terminate()
        producer.succeed()
        sent = read_journal(journal.read_text(encoding="ascii"), KEYS)
        self.sent += sent
        return sent

    def produce_poison(self) -> None:
        """Write one message to each partition that Postgres refuses as jsonb."""
        self._producers += 2
        for number in range(PARTITIONS):
            poison = b'{"producer": %d, "seq": %d, "text": "\\u0000"}' % (self._producers, number)
            self.produce_value(poison, Sent(self._producers, number, POISON, f"{number}"), number)

    def produce_one(self) -> None:
        """Write one message that is no other one's."""
        self._producers += 2
        number = next(number for number in count() if kind(number) == ACCEPTED)
        self.produce_value(value(self._producers, number), Sent(self._producers, number, ACCEPTED, "0"), 0)

    def produce_value(self, content: bytes | None, message: Sent, partition: int) -> None:
        """Write this message."""
        self.topics.produce(self.topic, [content], partition=partition, key=message.key.encode())
        self.sent.append(message)

    def found(self) -> list[Message]:
        """Return the contents of the rows, in the order in which they were inserted."""
        return [
            (int(producer or -1), sequence) for producer, sequence in self.site.admin(_FOUND.format(table=self.table))
        ]

    def rows(self) -> int:
        """Return how many rows there are."""
        return int(self.site.admin(f"SELECT count(*) FROM {self.table}")[0][0])

    def until_rows(self, count: int = 1) -> None:
        """Wait until there are so many rows.

        Raises:
            AssertionError: there are fewer, and none is added.
        """
        deadline = time.monotonic() + self.patience
        while self.rows() < count:
            assert time.monotonic() < deadline, f"{self.topic} has no {count} rows"
            time.sleep(_LOOK_SECONDS)

    def verdict(self) -> Verdict:
        """Compare what is there with what was sent."""
        return judge(self.sent, self.found(), self.peer.kept(self))

    def settle(self) -> Verdict:
        """Let the tool do what it can, start it again when it has ended, help as documented; then judge.

        Raises:
            AssertionError: it has not finished in time, and continues.
        """
        state, changed, begun = self.verdict(), time.monotonic(), time.monotonic()
        while True:
            assert time.monotonic() - begun < self.patience, f"{self.topic} has not finished: {state}"
            restarted = self._tend()
            time.sleep(_LOOK_SECONDS)
            before, state = state, self.verdict()
            if restarted or before != state:
                changed = time.monotonic()
            waited = time.monotonic() - changed
            complete = not (state.lost or state.bad_kept < state.bad or self.peer.is_busy(self))
            if waited > _QUIET_SECONDS and (complete or self.halted or waited > _slower() * self.peer.patience):
                remedy = "" if complete or len(self.remedies) == _MAX_REMEDIES else self.peer.remedy(self)
                if not remedy:
                    return state
                self.remedies.append(remedy)
                changed = time.monotonic()

    def finish(self) -> None:
        """Let the tool do everything before the fault.

        Raises:
            AssertionError: it did not, so nothing can be said about the fault.
        """
        state = self.settle()
        assert not state.lost, f"{self.topic} has not done everything before the fault: {state}"

    @property
    def halted(self) -> str:
        """How an operator learns that the tool does not continue; empty if it believes that all is well."""
        if self.restarts == self._most_restarts and not any(process.running for process in self._processes):
            return f"the process ended {self.restarts + 1} times"
        return self.peer.halted(self)

    @property
    def logged(self) -> bool:
        """Whether the tool has logged an error since the mark, other than about bad messages."""
        logged = (log.read_bytes()[self._marks.get(log, 0) :].decode(errors="replace") for log in self.logs)
        records = (record for text in logged for record in _RECORD.split(text))
        return any(_ERROR.search(record) and _ABOUT_BAD not in record for record in records)

    def _tend(self) -> bool:
        """Start processes again that have ended; return whether there was one, which needs time to start."""
        ended = [process for process in self._processes if not process.running]
        started = ended[: self._most_restarts - self.restarts]
        for process in started:
            self.restarts += 1
            process.start()
        return bool(started)

    @property
    def _most_restarts(self) -> int:
        return _MAX_RESTARTS * len(self._processes)

    def reset_group(self, offsets: Mapping[int, int]) -> None:
        """Set the offsets of the tool's consumer group.

        Raises:
            AssertionError: the group still has members, for which Kafka refuses it.
        """
        places = [TopicPartition(self.topic, partition, offset) for partition, offset in offsets.items()]
        request = ConsumerGroupTopicPartitions(self.peer.group_id(self), places)

        def is_set() -> bool:
            answers = self.admin.alter_consumer_group_offsets([request])
            try:
                return all(
                    place.error is None for answer in answers.values() for place in answer.result(60).topic_partitions
                )
            except KafkaException:
                return False

        assert wait_until(is_set, seconds=60), "the group has members"

    def ends(self) -> dict[int, int]:
        """Return the end of each partition's log."""
        places = {TopicPartition(self.topic, number): OffsetSpec.latest() for number in range(PARTITIONS)}
        answers = self.admin.list_offsets(places)
        return {place.partition: answer.result(60).offset for place, answer in answers.items()}

    def due(self) -> int:
        """Return how many messages must have a row."""
        return sum(message.kind == ACCEPTED for message in self.sent)


def _slower() -> float:
    """Return how much longer to wait on a busy machine, on which a tool that starts looks like one that has stopped."""
    return min(max(os.getloadavg()[0] / (_BUSY * (os.cpu_count() or 1)), 1), _MOST_PATIENT)
