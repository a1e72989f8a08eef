"""What idle Kafka triggers cost the triggerer."""

import json
from typing import Any
from urllib.parse import urlsplit

from benchmarks import batches, messages
from benchmarks.airflow_process import run_module
from local_stack.stack import LocalStack

PARTITIONS = 4


def measure(stack: LocalStack, prefix: str, count: int, seconds: float) -> dict[str, Any]:
    """Let `count` triggers wait on as many topics that were read to their ends, and return what that costs."""
    names = [f"{prefix}-{number}" for number in range(count)]
    messages.create_topics(stack.bootstrap_servers, names, PARTITIONS)
    for name in names:
        batches.seed(stack, name)
    answer: dict[str, Any] = json.loads(
        run_module(
            stack,
            "benchmarks.idle_triggers",
            {
                "names": names,
                "seconds": seconds,
                "kafka_port": int(stack.bootstrap_servers.rsplit(":", 1)[1]),
                "postgres_port": urlsplit(stack.database_url).port,
            },
        )
    )
    if answer["ended"]:
        raise RuntimeError(f"{answer['ended']} of {count} idle triggers ended though no message came.")
    return answer
