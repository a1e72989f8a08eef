"""Waiting tasks survive outages: they report them, and continue by themselves."""

from pathlib import Path

import pytest

from local_stack.stack import LocalStack
from support.airflow_api import AirflowApi, Task
from support.eventually import eventually
from support.flow import SECONDS, Flow
from support.killed_components import start_ended
from support.observed_trigger import ObservedTrigger, Place, some_events

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def outages(api: AirflowApi, triggers: dict[str, ObservedTrigger]) -> Flow:
    """The trigger that lives through outages."""
    return Flow(api, triggers["outages"])


@pytest.fixture(scope="module")
def produced() -> list[Place]:
    """Everything that was produced so far."""
    return []


def log_on_disk(stack: LocalStack, task: Task) -> str:
    """Return the log that the triggerer writes: it can be read while nothing else answers."""
    folder = stack.logs / "airflow-tasks" / f"dag_id={task.run.dag_id}" / f"run_id={task.run.id}" / f"task_id={task.id}"
    return "".join(path.read_text(encoding="utf-8") for path in sorted(Path(folder).glob("*.trigger.*")))


def test_an_idle_listener_waits_for_an_unavailable_kafka_and_reports_it(
    airflow_stack: LocalStack, outages: Flow, produced: list[Place]
) -> None:
    task = outages.until_waiting()
    try:
        airflow_stack.kafka.kill()
        eventually(
            lambda: "did not answer" in log_on_disk(airflow_stack, task), seconds=SECONDS, what="a line about Kafka"
        )
        assert "Nothing was lost; the next look is in 1 s." in log_on_disk(airflow_stack, task)
        assert outages.api.task(task.run, task.id).state == "deferred"
    finally:
        airflow_stack.kafka.start()
    produced += outages.trigger.produce(some_events(10, 1))
    outages.until_ingested(produced)


def test_postgres_restarted_while_idle_loses_nothing(
    airflow_stack: LocalStack, outages: Flow, produced: list[Place]
) -> None:
    outages.until_waiting()
    try:
        airflow_stack.postgres.stop()
        produced += outages.trigger.produce(some_events(10, 1, first=10))
    finally:
        airflow_stack.postgres.start()

    def continues() -> bool:
        # Their own database is on the same server.
        start_ended(airflow_stack)
        return outages.trigger.count() >= len(produced)

    eventually(continues, seconds=SECONDS, what="work orders after Postgres was started again")
    outages.until_ingested(produced)
    # Those that notice it last have ended by now as well; whatever is tested next finds all at work.
    start_ended(airflow_stack)
