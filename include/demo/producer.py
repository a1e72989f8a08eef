"""A producer of another team: it knows a topic and none of its readers.

``python -m demo.producer --bootstrap-servers HOST:PORT`` sends more to a stack that was kept.
"""

import argparse
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from confluent_kafka import KafkaError, Message, Producer

from demo.health_events import Event, health_events

TOPIC: Final = "health.events"
SEVERE: Final = 2
"""The log level of librdkafka from which its lines are shown; what it retries, or what is raised, is no news."""
_FLUSH_SECONDS: Final = 60.0
_SLICES_PER_SECOND: Final = 10
_COMMITTED_SHARE: Final = 20
_ABORTED_SHARE: Final = 40


class DeliveryError(RuntimeError):
    """The broker did not take a message."""


@dataclass(slots=True)
class Sent:
    """What the broker has confirmed; written by the producer alone."""

    committed: int = 0
    """Messages that readers may see: plain ones, and those of the committed transaction."""
    in_transaction: int = 0
    """How many of them came by the committed transaction."""
    aborted: int = 0
    """Messages in the log whose transaction was aborted."""
    flaws: Counter[str] = field(default_factory=Counter)
    """Committed messages with a flaw, by its name."""

    def commit(self, event: Event) -> None:
        """Count one message that readers may see."""
        self.committed += 1
        if event.flaw:
            self.flaws[event.flaw] += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """How much is sent, where to, and how fast."""

    messages: int
    """Messages that readers may see in the end. One in twenty of them comes in a transaction that is committed; half
    as many again in one that is aborted."""
    seconds: float
    """Over how long they are spread."""
    seed: int = 1
    topic: str = TOPIC


def produce(
    settings: Mapping[str, str | int | float | bool], stream: Stream, sent: Sent, stop: threading.Event
) -> None:
    """Send a stream: a part, a committed transaction, a part, an aborted transaction, the rest.

    Args:
        settings: librdkafka's.
        stream: what to send.
        sent: is counted up while the broker confirms.
        stop: ends it early.

    Raises:
        DeliveryError: the broker did not take a message.
    """
    common = {
        **settings,
        "partitioner": "murmur2_random",
        "compression.type": "lz4",
        "linger.ms": 20,
        "log_level": SEVERE,
    }
    plain = Producer({**common, "enable.idempotence": True})
    transactional = Producer({**common, "transactional.id": f"{stream.topic}-import"})
    transactional.init_transactions(_FLUSH_SECONDS)
    events = health_events(stream.seed)
    in_transaction = stream.messages // _COMMITTED_SHARE
    first, second, third = _in_three(stream.messages - in_transaction)
    for part, then in ((first, "commit"), (second, "abort"), (third, None)):
        _send_paced(plain, stream, islice(events, part), sent, stop, count=part)
        if stop.is_set() or then is None:
            return
        count = in_transaction if then == "commit" else stream.messages // _ABORTED_SHARE
        _send_transaction(transactional, stream.topic, islice(events, count), sent, commit=then == "commit")


def _in_three(count: int) -> tuple[int, int, int]:
    third = count // 3
    return third, third, count - 2 * third


def _send_paced(
    producer: Producer, stream: Stream, events: Iterator[Event], sent: Sent, stop: threading.Event, *, count: int
) -> None:
    """Send a part of the stream in its share of the time, and wait until the broker has it."""
    outbox = _Outbox(producer, stream.topic)
    begin = time.monotonic()
    seconds = stream.seconds * count / stream.messages
    slices = max(1, int(seconds * _SLICES_PER_SECOND))
    for number in range(1, slices + 1):
        for event in islice(events, count * number // slices - count * (number - 1) // slices):
            outbox.send(event, sent.commit)
        producer.poll(0)
        if stop.wait(max(0.0, begin + seconds * number / slices - time.monotonic())):
            break
    outbox.flush()


def _send_transaction(producer: Producer, topic: str, events: Iterator[Event], sent: Sent, *, commit: bool) -> None:
    confirmed: list[Event] = []
    outbox = _Outbox(producer, topic)
    producer.begin_transaction()
    for event in events:
        outbox.send(event, confirmed.append)
    # Aborting drops what is not sent yet; the log is to hold aborted messages that a careless reader would see.
    outbox.flush()
    if not commit:
        producer.abort_transaction(_FLUSH_SECONDS)
        sent.aborted += len(confirmed)
        return
    producer.commit_transaction(_FLUSH_SECONDS)
    for event in confirmed:
        sent.commit(event)
    sent.in_transaction += len(confirmed)


class _Outbox:
    """Sends events and records which of them were delivered."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self._refused: list[str] = []

    def send(self, event: Event, confirmed: Callable[[Event], None]) -> None:
        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is None:
                confirmed(event)
            else:
                self._refused.append(str(error))

        self._producer.produce(self._topic, event.value, event.key, headers=list(event.headers), on_delivery=delivered)

    def flush(self) -> None:
        left = self._producer.flush(_FLUSH_SECONDS)
        if left or self._refused:
            reason = self._refused[0] if self._refused else f"no answer within {_FLUSH_SECONDS:g} s"
            raise DeliveryError(f"{left + len(self._refused)} messages did not reach topic {self._topic}: {reason}.")


def main() -> None:
    """Send a stream to a topic that is there."""
    parser = argparse.ArgumentParser(
        prog="python -m demo.producer", description="Send health-record events to a topic."
    )
    parser.add_argument("--bootstrap-servers", required=True, metavar="HOST:PORT")
    parser.add_argument("--topic", default=TOPIC)
    parser.add_argument("--messages", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=1.0, help="spread them over so long (%(default)s)")
    parser.add_argument("--seed", type=int, default=2, help="another seed, other events (%(default)s)")
    given = parser.parse_args()
    stream = Stream(messages=given.messages, seconds=given.seconds, seed=given.seed, topic=given.topic)
    sent = Sent()
    try:
        produce({"bootstrap.servers": given.bootstrap_servers}, stream, sent, threading.Event())
    except DeliveryError as error:
        sys.exit(str(error))
    sys.stdout.write(f"{sent.committed} messages sent, and {sent.aborted} in a transaction that was aborted\n")


if __name__ == "__main__":
    main()
