"""The whole way under many faults: a topic, work orders, a function with rows of its own, the outbox, another topic."""

import contextlib
import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from random import Random
from threading import Event
from typing import Final, Self
from urllib.parse import urlsplit

import psutil
import psycopg

from faults import contents, shipping
from faults.arrived import Arrived, Message, Place, compare
from faults.cases.clocks import clock
from faults.catalogue import Mode
from faults.chaos import Chaos
from faults.oracle import Verdict
from faults.producer import read_journal
from faults.role import GROWS_ON, USER_DATABASE
from faults.scene import PARTITIONS, Scene
from faults.site import Site
from faults.tasks import Task
from local_stack.errors import StackError
from local_stack.waiting import wait_until
from support.consumed import consumed
from workorders.core import workflows
from workorders.core.definitions.fields import Definition
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.postgres.connection import connect
from workorders.core.runs import lifecycle
from workorders.outbox.relay.definition import RelayDefinition

Say = Callable[[str], None]

_NAME: Final = "whole-way"
_SHOP: Final = "shop"
_PLAN_SECONDS: Final = 3.0
_RECOVERY_SECONDS: Final = 10.0
_AGAIN_SECONDS: Final = 1.0
_TASK_SECONDS: Final = 1_800.0
_DRAIN_SECONDS: Final = 1_800.0
_OTHER_CLOCKS: Final = 0.2
"""The share of processes whose clock is up to an hour off."""
_UNFINISHED: Final = """
    SELECT (SELECT count(*) FROM workorders.work_orders WHERE state NOT IN ('success', 'rejected'))
        + (SELECT count(*) FROM workorders.outbox_messages)
"""
_ROWS: Final = "SELECT producer, sequence FROM shipments ORDER BY id"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run gave."""

    injected: Mapping[str, int]
    """How often each fault was injected."""
    work_orders: Verdict
    rows: Arrived
    messages: Arrived

    @property
    def kept(self) -> bool:
        """Whether every promise was kept."""
        return self.work_orders.kept and self.rows.kept and self.messages.kept


def run(site: Site, seed: int, minutes: float, say: Say, *, on_server: bool) -> Outcome:
    """Let messages go the whole way, inject faults for so long, and compare both ends once everything is done.

    Raises:
        AssertionError: it was not done in time, or the sampler saw a contradiction.
    """
    with _Way(site, seed, Mode(on_server=on_server, grown=True)) as way:
        chaos = Chaos(site, way.processes, seed)
        until = time.monotonic() + 60 * minutes
        while time.monotonic() < until:
            chaos.burst()
            way.require_going()
            say(f"{len(way.finished)} batches done; {chaos.injected.total()} faults: {dict(chaos.injected)}")
        site.heal()
        say("No more faults; waiting until everything is done")
        way.finish()
        return Outcome(dict(chaos.injected), *way.verdicts())


class _Way:
    """All that Airflow would start again and again, each in a thread that waits for its process."""

    def __init__(self, site: Site, seed: int, mode: Mode) -> None:
        self._site = site
        self._random = Random(seed)
        self._scene = Scene(site, _NAME, Random(seed), mode)
        self._scene.define(workflow=_NAME, linger=3)
        self._scene.keys = shipping.KEYS
        self._over = Event()
        self._pool = ThreadPoolExecutor(64)
        self._futures: list[Future[None]] = []
        self._batches: set[int] = set()
        self._at_work: set[Task] = set()
        site.stack.postgres.create_database(_SHOP)
        self._shop = site.stack.postgres.url(_SHOP)
        #: The batches whose ingest and commit have succeeded.
        self.finished: list[int] = []

    def __enter__(self) -> Self:
        shipping.create_tables(self._shop)
        workflow = WorkflowDefinition.model_validate(
            {
                "name": _NAME,
                "callable": "faults.shipping:ship",
                "database": shipping.CONNECTION,
                "ordering_key": "key",
                "processes": 2,
                "linger": 5,
                "time_slice": 60,
                "timeout": 30,
                "retries": {"max_retries": 1_000, "first_delay": 0},
            }
        )
        with connect(self._site.admin_url) as database:
            workflows.register(database, workflow)
        self._scene.topics.create(shipping.TOPIC, PARTITIONS)
        self._scene.__enter__()
        relay = RelayDefinition.model_validate({"checkpoint_topic": f"{_NAME}-checkpoints"})
        variables = {
            USER_DATABASE: self._shop.replace(f":{urlsplit(self._shop).port}/", f":{self._site.postgres.port}/")
        }
        for _ in range(2):  # the second relay waits for the lease
            self._repeat(partial(self._role, "execute", workflow, variables))
            self._repeat(partial(self._role, "relay", relay, {}))
        self._repeat(self._plan)
        self._repeat(self._recover)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._pool.shutdown()
        self._scene.__exit__(None, None, None)

    def processes(self) -> list[psutil.Process]:
        """Return the processes that are at work now."""
        return [process for task in list(self._at_work) for process in task.tree()]

    def require_going(self) -> None:
        """Check that nothing has ended that should go on.

        Raises:
            Exception: what ended it.
            AssertionError: a producer has ended, or the sampler saw a contradiction.
        """
        for future in self._futures:
            if future.done():
                future.result()
        self._scene.require_producing()
        assert not self._scene.sampler.contradictions, self._scene.sampler.contradictions[0]

    def finish(self) -> None:
        """Stop the producer, and wait until everything that it sent is done.

        Raises:
            AssertionError: it was not done in time.
        """
        self._scene.stop_producing()
        assert wait_until(self._is_done, seconds=_DRAIN_SECONDS), f"unfinished: {self._site.admin(_UNFINISHED)}"
        self._over.set()
        assert wait_until(lambda: not self._at_work, seconds=_TASK_SECONDS), "tasks do not end"

    def verdicts(self) -> tuple[Verdict, Arrived, Arrived]:
        """Compare work orders, rows, and messages with what was sent."""
        sent: dict[Message, Place] = {}
        for journal in self._scene.journals:
            for producer, sequence, _, offset in read_journal(journal.read_text(encoding="ascii")):
                if contents.kind(sequence) == contents.ACCEPTED:
                    sent[producer, sequence] = sequence % shipping.KEYS, offset
        with psycopg.connect(self._shop) as connection:
            rows = connection.execute(_ROWS).fetchall()
        values = [
            json.loads(message.value() or b"") for message in consumed(self._site.stack.kafka_settings, shipping.TOPIC)
        ]
        published = [(value["producer"], value["seq"]) for value in values]
        return self._scene.check(), compare(rows, sent), compare(published, sent)

    def _is_done(self) -> bool:
        self.require_going()
        return self._scene.is_drained() and self._site.admin(_UNFINISHED) == [(0,)]

    def _repeat(self, step: Callable[[], None]) -> None:
        def loop() -> None:
            while not self._over.is_set():
                step()

        self._futures.append(self._pool.submit(loop))

    def _plan(self) -> None:
        task = self._scene.start_plan()
        if self._wait(task) == 0:
            for batch_id in set(task.answer()["waiting"]) - self._batches:
                self._batches.add(batch_id)
                self._futures.append(self._pool.submit(self._ingest, batch_id))
        self._over.wait(_PLAN_SECONDS)

    def _ingest(self, batch_id: int) -> None:
        while not self._over.is_set():
            if self._attempt(batch_id) and self._wait(self._scene.start_commit(batch_id)) == 0:
                self.finished.append(batch_id)
                return
            self._over.wait(_AGAIN_SECONDS)

    def _attempt(self, batch_id: int) -> bool:
        try:
            task = self._scene.start_ingest(batch_id, {GROWS_ON: "1", **self._clock()})
        except StackError:  # the Spark Connect server was killed while it started
            return False
        return self._wait(task) == 0

    def _role(self, role: str, definition: Definition, variables: Mapping[str, str]) -> None:
        given = definition.model_dump_json()
        self._wait(Task(self._site.process(role, "faults.role", role, given, variables={**variables, **self._clock()})))

    def _recover(self) -> None:
        with contextlib.suppress(psycopg.Error), connect(self._site.admin_url) as database:
            lifecycle.recover_lost(database)
        self._over.wait(_RECOVERY_SECONDS)

    def _clock(self) -> Mapping[str, str]:
        is_off = self._random.random() < _OTHER_CLOCKS
        return clock(self._random.randint(-3_600, 3_600)) if is_off else {}

    def _wait(self, task: Task) -> int:
        self._at_work.add(task)
        try:
            return task.wait(_TASK_SECONDS)
        finally:
            self._at_work.discard(task)
