"""A process that dies in the middle of a batch."""

import psutil
import psycopg

from local_stack.stack import LocalStack
from support.airflow_api import AirflowApi
from support.eventually import eventually
from support.flow import SECONDS, Flow
from support.observed_trigger import ObservedTrigger, some_events

MESSAGES = 200_000


def test_a_spark_application_killed_amid_a_batch_is_tried_again_and_doubles_nothing(
    airflow_stack: LocalStack, api: AirflowApi, triggers: dict[str, ObservedTrigger]
) -> None:
    flow = Flow(api, triggers["crashes"])
    flow.until_waiting()
    api.set_paused(flow.listener, paused=True)
    places = flow.trigger.produce(some_events(MESSAGES, 2))
    api.set_paused(flow.listener, paused=False)
    eventually(lambda: copying(airflow_stack), seconds=SECONDS, every=0.02, what="an open transaction with work orders")
    application = spark_application(airflow_stack)
    application.kill()
    psutil.wait_procs([application], timeout=SECONDS)
    assert flow.trigger.count() < MESSAGES, "the batch was finished before its application was killed"
    flow.until_ingested(places)
    created = [flow.create(run) for run in flow.ingest_runs()]
    (tried_again,) = [task for task in created if task.try_number > 1]
    assert "nothing was committed there" in api.error(tried_again, 1)
    assert api.error(tried_again, 1).endswith("Next try in 1 s.")


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


def spark_application(stack: LocalStack) -> psutil.Process:
    """Return the Java process of the Spark application that runs."""
    processes = psutil.Process(stack.supervisor_pid).children(recursive=True)
    (found,) = [process for process in processes if process.name() == "java" and "--batch" in process.cmdline()]
    return found
