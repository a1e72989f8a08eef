"""One trigger under a fault: its topic, its producer, its sampler, and the tasks of its DAGs."""

import json
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self

from faults import oracle
from faults.catalogue import DEFAULT, Mode
from faults.oracle import Ends, Gone, Verdict
from faults.role import ON_CLUSTER
from faults.site import Site
from faults.tasks import Task
from local_stack.waiting import wait_until
from support.attempt_on_server import ON_SERVER
from support.definitions import define
from support.observed_trigger import ObservedTrigger
from support.sampler import Sampler
from support.topics import Topics

PARTITIONS = 3
_LINGER_SECONDS = 1
_BACKLOG = 600
_PER_TICK = 5
_BACKLOG_SECONDS = 60.0
_DRAIN_SECONDS = 600.0
_PAUSE_SECONDS = 0.3
_FEWEST_SAMPLES = 20


class Scene:
    """One trigger and what happens to it, from entering the context until leaving it."""

    def __init__(self, site: Site, name: str, random: Random, mode: Mode = DEFAULT) -> None:
        self.site = site
        self.mode = mode
        self.name = name
        #: How many keys the messages have, a multiple of the partitions; 0 for none.
        self.keys = 0
        #: For durations and sizes; the same seed gives the same.
        self.random = random
        self.define()
        self.topics = Topics(site.kafka_settings)
        self.trigger = ObservedTrigger(
            name,
            name,
            kafka_settings=site.kafka_settings,
            database_url=site.admin_url,
            group=self.definition.consumer_group,
        )
        self.sampler = Sampler(self.trigger)
        #: How often the fault was injected, with proof.
        self.injected = 0
        #: Partitions that must be stalled.
        self.stalled: set[int] = set()
        #: What Kafka lost, and an operator has left behind.
        self.gone: list[Gone] = []
        #: Batches that were dispatched and whose tasks have not all ended well, oldest first.
        self.unfinished: list[int] = []
        self._tasks: list[Task] = []
        self._producers: list[tuple[Task, Path, int]] = []
        self._journals: list[tuple[Path, int]] = []
        self._lifted: float | None = None
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self.topics.create(self.name, PARTITIONS)
        self._open.enter_context(self.sampler)
        self.produce()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._open.close()
        for task in [*self._tasks, *(task for task, _, _ in self._producers)]:
            task.end()

    def define(self, **fields: object) -> None:
        """Give the trigger these fields from now on."""
        self.definition = define(self.name, **{"linger": _LINGER_SECONDS, **fields})

    def produce(
        self,
        *,
        first_partition: int = 0,
        partitions: int = PARTITIONS,
        backlog: int = _BACKLOG,
        log: int = 0,
        plain: bool = False,
    ) -> None:
        """Start a producer with its own numbers, and wait until the broker has its backlog.

        Args:
            first_partition: the first one it writes to.
            partitions: how many from there on.
            backlog: messages to write at once.
            log: grows by one with each log of these partitions that an operator's decision lets the trigger follow.
            plain: without transactions.
        """
        number = 1 + 2 * (len(self._producers) + len(self._journals))
        journal = self.site.stack.logs / f"{self.name}-{number}.journal"
        arguments = {
            "servers": self.site.stack.bootstrap_servers,
            "topic": self.name,
            "first-partition": first_partition,
            "partitions": partitions,
            "producer": number,
            "backlog": backlog,
            "per-tick": _PER_TICK,
            "journal": journal,
            "plain": int(plain),
            "keys": self.keys,
        }
        words = [word for name, value in arguments.items() for word in (f"--{name}", str(value))]
        producer = Task(self.site.process("producer", "faults.producer", *words))
        self._producers.append((producer, journal, log))
        assert wait_until(
            lambda: "backlog written" in producer.output() or not producer.running, seconds=_BACKLOG_SECONDS
        ), "no backlog"

    def require_producing(self) -> None:
        """Check that no producer has ended that was not asked to.

        Raises:
            AssertionError: one has; what it printed is in the error.
        """
        for producer, _, _ in self._producers:
            assert producer.running, f"a producer ended:\n{producer.output()[-3000:]}"

    def stop_producing(self) -> None:
        """Let the producers finish what they have begun, and end."""
        producers, self._producers = self._producers, []
        for producer, _, _ in producers:
            producer.process.terminate()
        for producer, journal, log in producers:
            producer.succeed()
            self._journals.append((journal, log))

    def start_plan(self) -> Task:
        """Start the listener's planning task."""
        return self._start("plan", self.definition.model_dump_json())

    def plan(self) -> list[int]:
        """Plan, and return the batches whose ingest has to be started."""
        return self._take_over(self.start_plan())

    def planned(self) -> int:
        """Plan one batch, and return its number.

        Raises:
            AssertionError: there was nothing to plan, or more than one batch waits.
        """
        (batch_id,) = self.plan()
        return batch_id

    def on_server(self, port: int | None = None) -> dict[str, str]:
        """Start the Spark Connect server if it does not run; return the variables of an attempt that uses it.

        Args:
            port: another one that leads to the server.
        """
        server = self.site.stack.spark_connect
        self.site.stack.start_spark_connect()
        return {ON_SERVER: json.dumps(json.loads(server.airflow_connection) | {"port": port or server.port})}

    def start_ingest(self, batch_id: int, variables: Mapping[str, str] | None = None) -> Task:
        """Start an attempt at a batch: check and Spark, in the scene's mode unless the variables name an engine."""
        engine = (
            self.on_server() if self.mode.on_server and not {ON_CLUSTER, ON_SERVER} & (variables or {}).keys() else {}
        )
        return self._start("ingest", str(batch_id), {**engine, **(variables or {})})

    def start_commit(self, batch_id: int) -> Task:
        """Start the commit of the group's offsets."""
        return self._start("commit", str(batch_id))

    def start_command(self, *words: str) -> Task:
        """Start the command line, as an operator does."""
        task = Task(self.site.command(*words))
        self._tasks.append(task)
        return task

    def start_decision(self, kind: str, *options: str) -> Task:
        """Start `workorders resolve` for the trigger's topic, with the question answered in advance."""
        return self.start_command("resolve", kind, self.name, self.name, *options, "--reason", "a fault", "--yes")

    def finish(self, batch_id: int) -> bool:
        """Run the tasks of a batch's ingest run once; return whether both ended well."""
        if self.start_ingest(batch_id).wait() == 0 and self.start_commit(batch_id).wait() == 0:
            self.unfinished.remove(batch_id)
            return True
        return False

    def commit(self, batch_id: int) -> None:
        """Commit a batch whose ingest is done, which ends its tasks.

        Raises:
            AssertionError: the commit failed.
        """
        self.start_commit(batch_id).succeed()
        self.unfinished.remove(batch_id)

    def lifted(self) -> None:
        """Record that the fault is over: from now on recovery takes its time."""
        if self._lifted is None:
            self._lifted = time.monotonic()

    def recover(self) -> float:
        """Continue as the two DAGs do until everything is done; return the seconds since the fault was lifted.

        Raises:
            AssertionError: the sampler saw a contradiction, or it was not done in time.
        """
        self.lifted()
        assert self._lifted is not None
        self.stop_producing()
        deadline = time.monotonic() + _DRAIN_SECONDS
        while not self.is_drained():
            # After some contradictions there is no end to wait for.
            assert not self.sampler.contradictions, self.sampler.contradictions[0]
            assert time.monotonic() < deadline, f"{self.name} was not done in time; unfinished: {self.unfinished}"
            self._continue()
        return time.monotonic() - self._lifted

    def check(self) -> Verdict:
        """Compare the stored work orders with the messages that were sent."""
        for journal, log in self._journals:
            oracle.remember(self.site.admin_url, self.name, [journal], log=log)
        ends = self._ends()
        assert self.sampler.failure is None, f"the sampler failed: {self.sampler.failure!r}"
        assert self.sampler.samples >= _FEWEST_SAMPLES, f"the sampler looked {self.sampler.samples} times only"
        return oracle.check(
            self.site.admin_url,
            self.name,
            snapshots=list(self.sampler.snapshots),
            sampled=self.sampler.contradictions,
            ends=ends,
            stalled=self.stalled,
            gone=self.gone,
        )

    @property
    def journals(self) -> list[Path]:
        """What the producers that have ended wrote."""
        return [journal for journal, _ in self._journals]

    def next_offsets(self) -> dict[int, int]:
        """Return the ledger's next offset, by partition."""
        return self.trigger.next_offsets()

    def errors(self) -> dict[int, str]:
        """Return the last errors on the ledger, by partition."""
        return {number: row["last_error"] for number, row in self.trigger.ledger().items() if row["last_error"]}

    def ranges(self, batch_id: int) -> dict[int, bool]:
        """Return the partitions of a batch, and whether all their ranges in it are finished."""
        finished: dict[int, bool] = {}
        for row in self.trigger.ranges():
            if row["batch_id"] == batch_id:
                finished[row["partition"]] = finished.get(row["partition"], True) and row["finished_at"] is not None
        return finished

    def range_of(self, batch_id: int, partition: int) -> tuple[int, int]:
        """Return start and end of the one range that a batch has of a partition."""
        (found,) = (
            (row["start_offset"], row["end_offset"])
            for row in self.trigger.ranges()
            if (row["batch_id"], row["partition"]) == (batch_id, partition)
        )
        return found

    def is_drained(self) -> bool:
        """Return whether ledger and group are where the topic ends, stalled partitions apart."""
        ends, ledger = self._ends(), self.next_offsets()
        wanted = {number: end for number, end in ends.log.items() if number not in self.stalled}
        # The tasks of a batch with a stalled partition never get as far as its commit.
        committed = bool(self.stalled) or all(ends.group.get(number) == end for number, end in wanted.items())
        return committed and all(ledger.get(number) == end for number, end in wanted.items())

    def _continue(self) -> None:
        """Do what the listener and the unfinished ingest runs do next; what fails is tried again by the next call."""
        task = self.start_plan()
        if task.wait() == 0:
            self._take_over(task)
        for batch_id in list(self.unfinished):
            self.finish(batch_id)
        time.sleep(_PAUSE_SECONDS)

    def _take_over(self, task: Task) -> list[int]:
        waiting: list[int] = task.answer()["waiting"]
        self.unfinished += [batch_id for batch_id in waiting if batch_id not in self.unfinished]
        return waiting

    def _ends(self) -> Ends:
        if not self.topics.exists(self.name):
            return Ends({}, {})
        return Ends(self.trigger.last_stable_offsets(), self.trigger.group_offsets())

    def _start(self, role: str, of: str, variables: Mapping[str, str] | None = None) -> Task:
        task = Task(self.site.process(role, "faults.role", role, of, variables=variables))
        self._tasks.append(task)
        return task
