"""Writers and relays at work at the same time, and the oracle of what must be in Kafka afterwards."""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg

from support.consumed import consumed
from support.outbox import Outbox
from workorders.core.exceptions import WorkOrdersError
from workorders.outbox import OutboxMessage, enqueue

KEYS = 12


@dataclass(frozen=True)
class Commit:
    """When a writer asked for its commit, and when it had the answer."""

    begin: float
    end: float


@dataclass
class Written:
    """What the writers did, by value."""

    committed: dict[bytes, Commit] = field(default_factory=dict)
    aborted: set[bytes] = field(default_factory=set)
    #: The connection was lost while the commit was under way.
    unknown: dict[bytes, Commit] = field(default_factory=dict)


@dataclass
class Load:
    """Writers and relays that continue until told to end."""

    outbox: Outbox
    topics: list[str]
    #: The same outbox as the relays reach it, where that is another way.
    relayed: Outbox | None = None
    written: Written = field(default_factory=Written)
    _stop_writing: threading.Event = field(default_factory=threading.Event)
    _stop_relaying: threading.Event = field(default_factory=threading.Event)
    _changes: dict[str, Any] = field(default_factory=dict)
    #: How many drains have begun and not ended; its lock is held to begin one.
    _draining: int = 0
    _drains: threading.Condition = field(default_factory=threading.Condition)

    def pause_relays(self) -> None:
        """End all drains after their batch, wait for their ends, and begin none."""
        with self._drains:
            self._stop_relaying.set()
            assert self._drains.wait_for(lambda: self._draining == 0, 60), "a relay does not end"

    def unpause_relays(self, **changes: Any) -> None:
        """Let relays drain again, with another definition."""
        with self._drains:
            self._changes = changes
            self._stop_relaying = threading.Event()

    def write(self, seed: int) -> None:
        """Write transactions, some slow, some rolled back, with one key or several."""
        chance = random.Random(seed)
        number = 0
        while not self._stop_writing.is_set():
            try:
                with self.outbox.connect() as connection:
                    while not self._stop_writing.is_set():
                        number += 1
                        self._transaction(connection, chance, f"{seed}-{number}")
            except psycopg.Error:
                time.sleep(0.05)

    def _transaction(self, connection: Any, chance: random.Random, name: str) -> None:
        # In one order, so that two writers never wait for each other.
        keys = sorted(chance.sample(range(KEYS), chance.choice([1, 1, 2])))
        values = []
        for key in keys:
            values.append(f"{key}/{name}".encode())
            topic = self.topics[key % len(self.topics)]
            enqueue(connection, OutboxMessage(topic=topic, key=f"key-{key}", value=values[-1]))
            if chance.random() < 0.2:
                time.sleep(chance.random() * 0.02)
        if chance.random() < 0.1:
            self.written.aborted.update(values)
            connection.rollback()
            return
        begin = time.monotonic()
        try:
            connection.commit()
        except psycopg.Error:
            self.written.unknown |= dict.fromkeys(values, Commit(begin, float("inf")))
            raise
        self.written.committed |= dict.fromkeys(values, Commit(begin, time.monotonic()))

    def relay(self) -> None:
        """Drain again and again, as Airflow does."""
        while not self._stop_writing.is_set():
            with self._drains:
                stopped, changes = self._stop_relaying, self._changes
                is_paused = stopped.is_set()
                self._draining += not is_paused
            if is_paused:
                self._stop_writing.wait(0.01)
                continue
            try:
                (self.relayed or self.outbox).relay_until(stopped, **changes)
            except (WorkOrdersError, psycopg.Error):
                time.sleep(0.1)
            finally:
                with self._drains:
                    self._draining -= 1
                    self._drains.notify_all()

    @contextmanager
    def running(self, *, writers: int = 4, relays: int = 2) -> Iterator[None]:
        """Let them work from entering the context until leaving it."""
        threads = [threading.Thread(target=self.write, args=(seed,)) for seed in range(writers)]
        threads += [threading.Thread(target=self.relay) for _ in range(relays)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop_writing.set()
            self._stop_relaying.set()
            for thread in threads:
                thread.join(120)
            assert not any(thread.is_alive() for thread in threads), "a writer or a relay does not end"

    def until_written(self, more: int, seconds: float = 240.0) -> None:
        """Wait until this number of further messages is committed."""
        goal, deadline = len(self.written.committed) + more, time.monotonic() + seconds
        while len(self.written.committed) < goal:
            assert time.monotonic() < deadline, "the writers do not get on"
            time.sleep(0.05)

    def assert_right(self) -> None:
        """Every committed message is there once, no aborted one is, and keys are in the order of the commits."""
        found = [message for topic in self.topics for message in consumed(self.outbox.kafka, topic)]
        values = [message.value() or b"" for message in found]
        written = self.written
        assert len(values) == len(set(values)), f"{len(values) - len(set(values))} came twice"
        missing = set(written.committed) - set(values)
        assert not missing, f"{len(missing)} of {len(written.committed)} are missing: {sorted(missing)[:5]}"
        strange = set(values) - set(written.committed) - set(written.unknown)
        assert not strange, f"{len(strange)} were never committed: {sorted(strange)[:5]}"
        commits = {**written.committed, **written.unknown}
        for key in range(KEYS):
            latest_begin = 0.0
            for value in (value for value in values if value.startswith(b"%d/" % key)):
                assert commits[value].end >= latest_begin, f"{value!r} came too late"
                latest_begin = max(latest_begin, commits[value].begin)
