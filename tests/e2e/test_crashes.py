"""A process that dies in the middle of a batch, and one that should have died and did not."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil
import psycopg

from local_stack.stack import LocalStack
from support.airflow_api import AirflowApi
from support.eventually import eventually
from support.flow import SECONDS, Flow
from support.observed_trigger import ObservedTrigger, some_events
from support.spark_processes import executing, spark_applications

MESSAGES = 200_000
FEW = 20


def test_a_spark_application_killed_amid_a_batch_is_tried_again_and_doubles_nothing(
    airflow_stack: LocalStack, api: AirflowApi, triggers: dict[str, ObservedTrigger]
) -> None:
    flow = Flow(api, triggers["crashes"])
    flow.until_waiting()
    api.set_paused(flow.listener, paused=True)
    places = flow.trigger.produce(some_events(MESSAGES, 2))
    api.set_paused(flow.listener, paused=False)
    eventually(lambda: copying(airflow_stack), seconds=SECONDS, every=0.02, what="an open transaction with work orders")
    (application,) = spark_applications(airflow_stack)
    application.kill()
    psutil.wait_procs([application], timeout=SECONDS)
    assert flow.trigger.count() < MESSAGES, "the batch was finished before its application was killed"
    flow.until_ingested(places)
    created = [flow.create(run) for run in flow.ingest_runs()]
    (tried_again,) = [task for task in created if task.try_number > 1]
    assert "nothing was committed there" in api.error(tried_again, 1)
    assert api.error(tried_again, 1).endswith("Next try in 1 s.")


def test_an_application_that_outlives_its_killed_task_changes_nothing(
    airflow_stack: LocalStack, api: AirflowApi, triggers: dict[str, ObservedTrigger]
) -> None:
    flow = Flow(api, triggers["crashes"])
    flow.until_waiting()
    before = flow.trigger.work_orders()
    places = flow.trigger.produce(some_events(FEW, 2))
    # Its executor has just been started and has written nothing: the newer attempt is not to wait for its lock.
    zombie = eventually(lambda: executing(airflow_stack), seconds=SECONDS, every=0.02, what="an executor's process")
    runner = zombie[0].parent()
    assert runner is not None
    # In this order: Linux ends a process group that is orphaned while a process of it is stopped.
    runner.kill()
    for process in zombie:
        process.suspend()
    try:
        wanted = sum(map(len, before.values())) + len(places)
        eventually(lambda: flow.trigger.count() == wanted, seconds=SECONDS, what="work orders by a second attempt")
        flow.until_settled()
        left = (flow.trigger.work_orders(), flow.trigger.ledger(), flow.trigger.ranges(), flow.trigger.group_offsets())
        with held_ledger(airflow_stack, flow.trigger.name):
            wake(zombie)
            eventually(lambda: waits_for_the_ledger(airflow_stack), seconds=SECONDS, what="the zombie at the ledger")
    finally:
        wake(zombie)
        _, alive = psutil.wait_procs(zombie, timeout=SECONDS)
    assert alive == []
    assert left == (
        *(flow.trigger.work_orders(), flow.trigger.ledger(), flow.trigger.ranges(), flow.trigger.group_offsets()),
    )


def copying(stack: LocalStack) -> bool:
    """Say whether an executor is writing work orders now."""
    with psycopg.connect(stack.database_url) as connection:
        row = connection.execute(
            """
            SELECT count(*) FROM pg_stat_activity
            WHERE application_name LIKE 'workorders batch %' AND xact_start IS NOT NULL AND query LIKE 'COPY%'
            """
        ).fetchone()
    return row is not None and row[0] > 0


def wake(processes: list[psutil.Process]) -> None:
    """Let suspended processes go on, as far as they still exist."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.resume()


@contextmanager
def held_ledger(stack: LocalStack, trigger: str) -> Iterator[None]:
    """Hold the ledger's rows of a trigger, so that whoever is about to write waits."""
    with psycopg.connect(stack.database_url) as connection:
        connection.execute(
            """
            SELECT FROM workorders.kafka_ledger AS ledger JOIN workorders.triggers ON triggers.id = ledger.trigger_id
            WHERE triggers.name = %s FOR UPDATE OF ledger
            """,
            (trigger,),
        )
        yield


def waits_for_the_ledger(stack: LocalStack) -> bool:
    """Say whether an executor waits for a lock."""
    with psycopg.connect(stack.database_url) as connection:
        row = connection.execute(
            """
            SELECT count(*) FROM pg_stat_activity
            WHERE application_name LIKE 'workorders batch %' AND wait_event_type = 'Lock'
            """
        ).fetchone()
    return row is not None and row[0] > 0
