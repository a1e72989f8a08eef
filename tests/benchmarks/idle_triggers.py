"""Runs many idle `NewMessagesTrigger`s in one event loop, as a triggerer does; the last line tells what they cost."""

import asyncio
import json
import os
import sys
import time
from typing import Any

import psutil

from workorders.kafka.airflow.triggers import NewMessagesTrigger

_WARM_UP_SECONDS = 3.0


async def _wait(trigger: NewMessagesTrigger) -> int:
    return len([event async for event in trigger.run()])


async def measure(names: list[str], seconds: float, kafka_port: int, postgres_port: int) -> dict[str, Any]:
    """Let one trigger a name wait, and return their share of a core and how many connections they hold.

    Args:
        names: of the triggers; each has a topic of the same name.
        seconds: how long to measure, after a short time in which clients connect.
        kafka_port: port of the broker.
        postgres_port: port of the database.
    """
    tasks = [
        asyncio.create_task(_wait(NewMessagesTrigger(trigger_name=name, topics=[name], poll_interval=1.0)))
        for name in names
    ]
    await asyncio.sleep(_WARM_UP_SECONDS)
    process = psutil.Process(os.getpid())
    used, begun = _cpu(process), time.monotonic()
    await asyncio.sleep(seconds)
    share = (_cpu(process) - used) / (time.monotonic() - begun)
    ports = [connection.raddr.port for connection in process.net_connections("tcp") if connection.raddr]
    answer = {
        "core_share": share,
        "kafka_connections": ports.count(kafka_port),
        "postgres_connections": ports.count(postgres_port),
        "threads": process.num_threads(),
        "ended": sum(task.done() for task in tasks),
        "resident_mib": process.memory_info().rss / 2**20,
    }
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return answer


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(**json.loads(sys.stdin.read())))))
