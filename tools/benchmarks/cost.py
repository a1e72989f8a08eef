"""What one trigger costs: memory, CPU, worker slots, connections, and Dag runs, idle and with steady messages."""

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Final

from benchmarks.stack_processes import cpu_seconds, kafka_connections, memory_mib, sessions
from benchmarks.steady import Triggers, count_tasks
from local_stack.stack import LocalStack
from support.airflow_api import AirflowApi

_PER_SECOND: Final = 5
_WARM_UP_SECONDS: Final = 45.0
"""From the first message until the tasks of the ingest and of the function are at work."""
_LOOKS: Final = 5


@dataclass(frozen=True, slots=True)
class Use:
    """What all tasks and servers of a stack use at a time; of two uses, the difference is what a trigger costs."""

    task_mib: float
    """Memory of the scheduler and the processes of tasks, with Spark's; a page that several share is divided among
    them."""
    triggerer_mib: float
    """The same of the triggerer, in which idle triggers wait."""
    server_mib: float
    """The same of the Spark Connect server, which all triggers share."""
    cores: float
    """CPU of everything: Airflow, Spark, Postgres, Kafka."""
    slots: float
    """Tasks that run."""
    sessions: float
    """In the database of the work orders."""
    kafka_connections: float
    """Of everything but the broker."""

    def __sub__(self, other: "Use") -> "Use":
        """Return what this one has more than another."""
        return Use(*(getattr(self, name) - getattr(other, name) for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class Cost:
    """What an idle stack uses, or what a steady trigger adds to it, and how many Dag runs that makes."""

    use: Use
    dag_runs_a_day: float
    task_instances_a_day: float


def idle(stack: LocalStack, seconds: float) -> Cost:
    """Return what a stack costs whose triggers wait."""
    with closing(AirflowApi(stack.airflow_url)) as api:
        return _cost(stack, api, seconds)


def steady(triggers: Triggers, name: str, idle: Use, seconds: float) -> Cost:
    """Send steady messages to a trigger, and return what it adds for so many seconds after a warm-up.

    Raises:
        RuntimeError: a message did not reach Kafka, or tasks of earlier messages did not end.
    """
    triggers.until_idle()
    with (
        closing(AirflowApi(triggers.stack.airflow_url)) as api,
        _messages(triggers, name, _WARM_UP_SECONDS + seconds),
    ):
        time.sleep(_WARM_UP_SECONDS)
        found = _cost(triggers.stack, api, seconds)
    return replace(found, use=found.use - idle)


@contextmanager
def _messages(triggers: Triggers, name: str, seconds: float) -> Iterator[None]:
    failed: list[Exception] = []

    def produce() -> None:
        try:
            triggers.produce([name], _PER_SECOND, seconds)
        except Exception as error:  # noqa: BLE001 - raised below, in the thread of the caller
            failed.append(error)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    if failed:
        raise failed[0]


def _cost(stack: LocalStack, api: AirflowApi, seconds: float) -> Cost:
    (runs, tasks), days = _made(api), seconds / 86_400
    use = _use(stack, api, seconds)
    runs_later, tasks_later = _made(api)
    return Cost(use, (runs_later - runs) / days, (tasks_later - tasks) / days)


def _made(api: AirflowApi) -> tuple[int, int]:
    """Return how many Dag runs and task instances there are."""
    paths = "/dags/~/dagRuns", "/dags/~/dagRuns/~/taskInstances"
    runs, tasks = (int(api.get(path, limit=1)["total_entries"]) for path in paths)
    return runs, tasks


def _use(stack: LocalStack, api: AirflowApi, seconds: float) -> Use:
    cpu, begun = _cpu_seconds(stack), time.monotonic()
    looks = []
    for number in range(_LOOKS):
        time.sleep(max(0.0, begun + (number + 1) * seconds / _LOOKS - time.monotonic()))
        looks.append(_look(stack, api))
    cores = (_cpu_seconds(stack) - cpu) / (time.monotonic() - begun)
    means = {name: sum(look[name] for look in looks) / _LOOKS for name in looks[0]}
    return Use(cores=cores, **means)


def _look(stack: LocalStack, api: AirflowApi) -> dict[str, float]:
    server = stack.spark_connect.process.pid
    components = [component.process.pid for component in stack.airflow.components]
    return {
        "task_mib": memory_mib(stack.airflow.scheduler.process.pid),
        "triggerer_mib": memory_mib(stack.airflow.triggerer.process.pid),
        "server_mib": memory_mib(server),
        "slots": count_tasks(api, "running"),
        "sessions": sessions(stack),
        "kafka_connections": kafka_connections(stack, [server, *components]),
    }


def _cpu_seconds(stack: LocalStack) -> float:
    # A process whose parent has ended is taken over by the supervisor; below the parts, its CPU time would be missing.
    return cpu_seconds(stack.supervisor_pid)
