"""A batch of ten messages through `spark-submit`, in turns with a bare Spark session that reads the same messages."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks import batches, messages
from benchmarks.spark_submit import APPLICATION, submit
from local_stack.stack import LocalStack

MESSAGES = 10
PARTITIONS = 2
_BARE = Path(__file__).with_name("read_ten.py")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two submissions, one after the other."""

    ours_seconds: float
    bare_seconds: float


def take_turns(stack: LocalStack, topic: str, rounds: int, *, conf: Mapping[str, str] | None = None) -> list[Pair]:
    """Produce ten messages a round and submit both applications for them, each first in every second round."""
    messages.create_topics(stack.bootstrap_servers, [topic], PARTITIONS)
    return [_pair(stack, topic, number, conf) for number in range(rounds)]


def _pair(stack: LocalStack, topic: str, number: int, conf: Mapping[str, str] | None) -> Pair:
    messages.produce(stack.bootstrap_servers, topic, PARTITIONS, MESSAGES)
    batch_id = batches.plan(stack, topic, most=MESSAGES)
    each = MESSAGES // PARTITIONS
    starts = {str(partition): number * each for partition in range(PARTITIONS)}
    ends = {partition: offset + each for partition, offset in starts.items()}
    bare_arguments = [topic, json.dumps(starts), json.dumps(ends)]

    def ours() -> float:
        return submit(stack, APPLICATION, ["--batch", str(batch_id)], conf=conf)

    def bare() -> float:
        return submit(stack, _BARE, bare_arguments, conf=conf)

    if number % 2:
        bare_seconds = bare()
        return Pair(ours(), bare_seconds)
    ours_seconds = ours()
    return Pair(ours_seconds, bare())
