"""What the processes of a local stack use: CPU, memory, connections. One that ends meanwhile counts as nothing."""

from collections.abc import Callable, Iterable

import psutil
import psycopg

from local_stack.stack import LocalStack

_SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
_MIB = 1 << 20


def parts(stack: LocalStack) -> dict[str, int]:
    """Return the id of the first process of each part, by the part's name."""
    return {
        **{f"Airflow's {component.name}": component.process.pid for component in stack.airflow.components},
        "Postgres": stack.postgres.process.pid,
        "Kafka": stack.kafka.process.pid,
        "Spark Connect server": stack.spark_connect.process.pid,
    }


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and its descendants, those that have ended included."""
    # User, system, and both of the children that have ended.
    return _sum(_with_descendants(pid), lambda process: sum(process.cpu_times()[:4]))


def memory_mib(pid: int) -> float:
    """Return the memory of a process and its descendants; a page that several share is divided among them."""
    return _sum(_with_descendants(pid), lambda process: process.memory_full_info().pss / _MIB)


def kafka_connections(stack: LocalStack, pids: Iterable[int]) -> int:
    """Return the connections of some processes and their descendants to the broker."""
    port = int(stack.bootstrap_servers.split(":")[1])

    def count(process: psutil.Process) -> float:
        found = process.net_connections("tcp")
        return sum(bool(connection.raddr) and connection.raddr.port == port for connection in found)

    return int(sum(_sum(_with_descendants(pid), count) for pid in pids))


def sessions(stack: LocalStack) -> int:
    """Return the sessions in the database of the work orders."""
    with psycopg.connect(stack.database_url) as connection:
        return sum(count for (count,) in connection.execute(_SESSIONS))


def _with_descendants(pid: int) -> list[psutil.Process]:
    root = psutil.Process(pid)
    return [root, *root.children(recursive=True)]


def _sum(processes: Iterable[psutil.Process], value: Callable[[psutil.Process], float]) -> float:
    total = 0.0
    for process in processes:
        try:
            total += value(process)
        except psutil.NoSuchProcess:
            continue
    return total
