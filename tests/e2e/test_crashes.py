"""A process that dies in the middle of a batch, and one that should have died and did not."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, LiteralString

import psutil
import psycopg
import pytest

from local_stack.stack import LocalStack
from support.airflow_api import AirflowApi
from support.eventually import eventually
from support.flow import SECONDS, Flow
from support.observed_trigger import ObservedTrigger, some_events
from support.spark_processes import executors, spark_applications

pytestmark = pytest.mark.long

FEW = 20


def test_an_application_that_outlives_its_killed_task_changes_nothing(
    airflow_stack: LocalStack, api: AirflowApi, triggers: dict[str, ObservedTrigger]
) -> None:
    flow = Flow(api, triggers["crashes"])
    flow.until_waiting()
    before = flow.trigger.work_orders()
    places = flow.trigger.produce(some_events(FEW, 1))
    # It has just been started and holds no lock as yet, for which the newer attempt would have to wait.
    (executor,) = eventually(lambda: executors(airflow_stack), seconds=SECONDS, every=0.005, what="an executor")
    executor.suspend()
    assert not sessions(airflow_stack, "true"), "the executor was stopped too late: it is at the database already"
    (zombie,) = spark_applications(airflow_stack)
    task = zombie.parent()
    assert task is not None
    task.kill()
    try:
        wanted = sum(map(len, before.values())) + len(places)
        eventually(lambda: flow.trigger.count() == wanted, seconds=SECONDS, what="work orders by a second attempt")
        flow.until_settled()
        left = everything_of(flow)
        with held_ledger(airflow_stack, flow.trigger.name):
            executor.resume()
            eventually(
                lambda: sessions(airflow_stack, "wait_event_type = 'Lock'"),
                seconds=SECONDS,
                what="the old attempt at the ledger",
            )
    finally:
        with suppress(psutil.NoSuchProcess):
            executor.resume()
        _, alive = psutil.wait_procs([zombie], timeout=SECONDS)
    assert alive == []
    assert everything_of(flow) == left


def everything_of(flow: Flow) -> tuple[Any, ...]:
    """Return all that an attempt could change."""
    trigger = flow.trigger
    return trigger.work_orders(), trigger.ledger(), trigger.ranges(), trigger.group_offsets()


def sessions(stack: LocalStack, condition: LiteralString) -> int:
    """Return how many sessions of executors there are, for which a condition holds."""
    with psycopg.connect(stack.database_url) as connection:
        row = connection.execute(
            f"SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'workorders batch %' AND {condition}"
        ).fetchone()
    return 0 if row is None else int(row[0])


@contextmanager
def held_ledger(stack: LocalStack, trigger: str) -> Iterator[None]:
    """Hold the ledger's rows of a trigger, so that each session that is about to write waits."""
    with psycopg.connect(stack.database_url) as connection:
        connection.execute(
            """
            SELECT FROM workorders.kafka_ledger AS ledger JOIN workorders.triggers ON triggers.id = ledger.trigger_id
            WHERE triggers.name = %s FOR UPDATE OF ledger
            """,
            (trigger,),
        )
        yield
