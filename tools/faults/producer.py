"""A producer process that knows nothing of work orders: `python -m faults.producer ...`, until SIGTERM.

Two producers write known contents: one plain, one in transactions of which every third is aborted. The
journal contains a line for each message that the broker has acknowledged (in a transaction: with the commit): producer,
sequence number, partition and offset.
"""

import argparse
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from confluent_kafka import KafkaException, Message, Producer

from faults.contents import aborted_value, value

TICK_SECONDS = 0.1
ABORTED_EVERY = 3
END = "end"
_TRANSACTION_MS = 900_000
"""As long as Kafka allows: a producer that waits for a killed or silent broker must not be fenced, which ends it."""
_MOST_OUTSTANDING = 5_000
_STEP_SECONDS = 10.0


def read_journal(text: str) -> Iterator[tuple[int, ...]]:
    """Return producer, sequence number, partition, and offset of each message of a journal.

    Raises:
        AssertionError: the producer did not end well.
    """
    *lines, last = text.splitlines()
    assert last == END, f"the producer did not end well; the last line of its journal is {last!r}"
    return (tuple(map(int, line.split())) for line in lines)


class Stop:
    """Whether the end was asked for."""

    def __init__(self) -> None:
        self.asked = False
        signal.signal(signal.SIGTERM, self._ask)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True


class Writer:
    """Writes one producer's sequence over partitions `first` to `first + partitions`, and journals what was taken."""

    def __init__(self, number: int, given: argparse.Namespace, journal: TextIO, **settings: Any) -> None:
        self.number = number
        self.sequence = 0
        self._given = given
        self._journal = journal
        self.kafka = Producer(
            {
                "bootstrap.servers": given.servers,
                "enable.idempotence": True,
                "linger.ms": 5,
                # A broker that is killed for a while is no reason to give a message up.
                "message.timeout.ms": 0,
                "log_level": 0,
                **settings,
            }
        )

    def send(self, count: int) -> list[tuple[int, int, int, int]]:
        """Hand the next messages to the client; the returned list fills as the broker takes them."""
        taken: list[tuple[int, int, int, int]] = []
        for _ in range(count):
            self._produce(value(self.number, self.sequence), self.sequence, taken)
            self.sequence += 1
        return taken

    def send_doomed(self, count: int) -> None:
        """Send messages of a transaction that will be aborted."""
        for number in range(count):
            self._produce(aborted_value(self.number, number), number, [])

    def keep(self, taken: list[tuple[int, int, int, int]]) -> None:
        """Write places into the journal."""
        self._journal.writelines(" ".join(map(str, place)) + "\n" for place in taken)
        taken.clear()

    def _produce(self, content: bytes | None, sequence: int, taken: list[tuple[int, int, int, int]]) -> None:
        def delivered(error: Any, message: Message) -> None:
            partition, offset = message.partition(), message.offset()
            if error is None and partition is not None and offset is not None:
                taken.append((self.number, sequence, partition, offset))

        partition = self._given.first_partition + sequence % self._given.partitions
        key = b"%d" % (sequence % self._given.keys) if self._given.keys else None
        self.kafka.produce(self._given.topic, content, key, partition=partition, on_delivery=delivered)
        self.kafka.poll(0)


class Plain:
    """Writes without transactions."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._taken: list[list[tuple[int, int, int, int]]] = []

    def write(self, count: int) -> None:
        """Write, unless the broker has much to take still."""
        if len(self._writer.kafka) < _MOST_OUTSTANDING:
            self._taken.append(self._writer.send(count))
        self._writer.kafka.poll(0)

    def finish(self) -> None:
        """Wait until the broker has everything."""
        while self._writer.kafka.flush(_STEP_SECONDS):
            pass
        for taken in self._taken:
            self._writer.keep(taken)


class Transactional:
    """Writes in transactions, and aborts every third."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._transactions = 0
        _insist(writer.kafka.init_transactions)

    def finish(self) -> None:
        """Do nothing: each transaction has ended already."""

    def write(self, count: int) -> None:
        """Write one transaction; again with the same contents when the broker made its abort necessary."""
        kafka, begin = self._writer.kafka, self._writer.sequence
        self._transactions += 1
        kafka.begin_transaction()
        try:
            if self._transactions % ABORTED_EVERY == 0:
                self._writer.send_doomed(count)
                kafka.flush()
                _insist(kafka.abort_transaction)
            else:
                taken = self._writer.send(count)
                _insist(kafka.commit_transaction)
                self._writer.keep(taken)
        except KafkaException as failure:
            if not failure.args[0].txn_requires_abort():
                raise
            _insist(kafka.abort_transaction)
            self._writer.sequence = begin


def _second(given: argparse.Namespace, journal: TextIO) -> Plain | Transactional:
    if given.plain:
        return Plain(Writer(given.producer + 1, given, journal))
    transactional_id = f"{given.topic}-{given.producer}"
    settings = {"transactional.id": transactional_id, "transaction.timeout.ms": _TRANSACTION_MS}
    return Transactional(Writer(given.producer + 1, given, journal, **settings))


def _insist(step: Any) -> None:
    while True:
        try:
            step(_STEP_SECONDS)
        except KafkaException as failure:
            if not failure.args[0].retriable():
                raise
        else:
            return


def main() -> None:
    """Write a backlog at once, then a steady stream, until SIGTERM; the journal ends with a line `end`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--first-partition", type=int, default=0)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--keys", type=int, default=0, help="number of keys, a multiple of the partitions; 0: no keys")
    parser.add_argument("--producer", type=int, required=True, help="number of the first of the two producers")
    parser.add_argument("--backlog", type=int, required=True, help="messages to write at once")
    parser.add_argument("--per-tick", type=int, required=True, help="messages of each producer every 0.1 s")
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--plain", type=int, default=0, help="1: neither producer writes in transactions")
    given = parser.parse_args()
    stop = Stop()
    with given.journal.open("w", encoding="ascii", buffering=1) as journal:
        plain = Plain(Writer(given.producer, given, journal))
        second = _second(given, journal)
        plain.write(given.backlog // 2)
        for _ in range(2):
            second.write(given.backlog // 4)
        print("backlog written", flush=True)
        while not stop.asked:
            plain.write(given.per_tick)
            second.write(given.per_tick)
            time.sleep(TICK_SECONDS)
        plain.finish()
        second.finish()
        journal.write(f"{END}\n")


if __name__ == "__main__":
    main()
