"""A reader in Java sees what a reader of librdkafka sees: partitions, headers, keys, tombstones."""

import os
import subprocess

import pytest
from confluent_kafka import Message

from local_stack import jars
from local_stack.java import find_java
from local_stack.stack import CHECKOUT, LocalStack
from support.consumed import consumed
from support.outbox import new_outbox
from support.topics import Topics
from workorders.outbox import OutboxMessage

pytestmark = pytest.mark.integration


def test_a_consumer_in_java_reads_what_was_sent(stack: LocalStack, topics: Topics, name: str) -> None:
    if not find_java().program.with_name("javac").exists():
        pytest.skip("A Java without a compiler runs no source file.")
    topics.create(name, partitions=5)
    outbox = new_outbox(stack)
    outbox.write(
        *(OutboxMessage(topic=name, key=f"key-{n}", value=f"value-{n}") for n in range(20)),
        OutboxMessage(topic=name, key="gone", value=None),
        OutboxMessage(topic=name, value=b"", headers=[("a", "1"), ("b", b"\xff\0"), ("a", "2"), ("c", None)]),
    )
    outbox.relay()
    in_java = read_in_java(stack, name, 22)
    assert in_java == {
        (
            str(message.partition()),
            ",".join(f"{name}={hexadecimal(value)}" for name, value in headers_of(message)),
            hexadecimal(message.key()),
            hexadecimal(message.value()),
        )
        for message in consumed(stack.kafka_settings, name)
    }
    assert len(in_java) == 22
    assert "a=31,b=ff00,a=32,c=null" in {headers for _, headers, *_ in in_java}
    partitions = {key: int(partition) for partition, _, key, _ in in_java}
    for n in range(20):
        key = f"key-{n}".encode()
        assert partitions[key.hex()] == java_partition(key, 5)


def read_in_java(stack: LocalStack, topic: str, messages: int) -> set[tuple[str, ...]]:
    """Return what Kafka's own client reads."""
    class_path = os.pathsep.join(map(str, jars.fetch("kafka")))
    source = CHECKOUT / "tests" / "support" / "ReadTopic.java"
    command = [str(find_java().program), "-cp", class_path, str(source), stack.bootstrap_servers, topic, str(messages)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    return {tuple(line.split("\t")) for line in printed.splitlines()}


def headers_of(message: Message) -> list[tuple[str, bytes | str | None]]:
    found = message.headers() or []
    assert isinstance(found, list)
    return [(header[0], header[1]) for header in found]


def hexadecimal(value: bytes | str | None) -> str:
    assert not isinstance(value, str)
    return "null" if value is None else value.hex()


def java_partition(key: bytes, partitions: int) -> int:
    """Return what `Utils.toPositive(Utils.murmur2(key)) % partitions` is in Kafka's Java client."""
    mask, factor = 0xFFFFFFFF, 0x5BD1E995
    value = (0x9747B28C ^ len(key)) & mask
    whole = len(key) & ~3
    for start in range(0, whole, 4):
        part = int.from_bytes(key[start : start + 4], "little") * factor & mask
        part = (part ^ (part >> 24)) * factor & mask
        value = (value * factor & mask) ^ part
    if rest := key[whole:]:
        value = (value ^ int.from_bytes(rest, "little")) * factor & mask
    value = (value ^ (value >> 13)) * factor & mask
    return ((value ^ (value >> 15)) & 0x7FFFFFFF) % partitions
