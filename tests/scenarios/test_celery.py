"""`make up EXECUTOR=celery`: two Celery workers, two schedulers, and two triggerers, of which one each is killed."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import psycopg
import pytest

from local_stack.airflow import AirflowComponent
from local_stack.stack import LocalStack
from support.airflow_api import AirflowApi, Task
from support.debian import require_debian
from support.definition_files import write_definitions
from support.eventually import eventually
from support.flow import SECONDS, Flow
from support.observed_trigger import ObservedTrigger, Place, some_events
from support.sampler import commits_in_order

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

EACH = 60
PARTITIONS = 3
REDELIVERED_AFTER = {"AIRFLOW__CELERY_BROKER_TRANSPORT_OPTIONS__VISIBILITY_TIMEOUT": "60"}
"""Redis gives a message again that no worker has acknowledged within a minute, instead of a day."""
TRIGGERS: list[dict[str, Any]] = [
    {
        "name": "parcels",
        "type": "kafka",
        "workflow": "echo",
        "topics": ["celery.parcels"],
        "tasks": {
            "plan_batch": {"executor": "LocalExecutor"},
            "create_work_orders": {"pool": "spark", "queue": "spark"},
        },
    },
    {
        "name": "letters",
        "type": "kafka",
        "workflow": "keep",
        "topics": ["celery.letters"],
        "spark_connection": "spark_connect_default",
        "tasks": {"create_work_orders": {"queue": "late"}},
    },
]
WORKFLOW = {"name": "echo", "callable": "support.run_functions:echo", "workers": 2}


@pytest.fixture(scope="module")
def celery_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    """Postgres, Kafka, Redis, and an Airflow with two schedulers, two triggerers, and two Celery workers."""
    require_debian("redis-server")
    folder = tmp_path_factory.mktemp("definitions")
    with LocalStack(
        airflow=True,
        spark_connect=True,
        celery=True,
        triggers_folder=write_definitions(folder / "triggers", *TRIGGERS),
        workflows_folder=write_definitions(folder / "workflows", WORKFLOW),
        environment=REDELIVERED_AFTER,
        name="celery",
    ) as stack:
        yield stack


@pytest.fixture(scope="module")
def api(celery_stack: LocalStack) -> Iterator[AirflowApi]:
    """Airflow's API, once the pool of the tasks exists."""
    client = AirflowApi(celery_stack.airflow_url)
    client.create_pool("spark", 2)
    yield client
    client.close()


def flow_of(stack: LocalStack, api: AirflowApi, name: str, partitions: int) -> Flow:
    trigger = ObservedTrigger.on_stack(stack, name, f"celery.{name}")
    trigger.create_topic(partitions)
    return Flow(api, trigger)


@pytest.fixture(scope="module")
def parcels(celery_stack: LocalStack, api: AirflowApi) -> Flow:
    """A trigger whose batches are submitted by the tasks of a queue, in a pool."""
    return flow_of(celery_stack, api, "parcels", PARTITIONS)


@pytest.fixture(scope="module")
def produced(parcels: Flow) -> list[Place]:
    """Everything that was produced so far."""
    return parcels.trigger.produce(some_events(EACH, PARTITIONS))


def test_tasks_run_where_the_file_of_the_trigger_says(parcels: Flow, produced: list[Place]) -> None:
    parcels.until_ingested(produced)
    (run, *_) = parcels.ingest_runs()
    assert settings(parcels.api, parcels.create(run)) == ("spark", "spark", None)
    commit = parcels.api.task(run, "commit_offsets")
    assert settings(parcels.api, commit) == ("default_pool", "default", None)
    (listened, *_) = parcels.finished_listener_runs()
    plan = parcels.api.task(listened, "plan_batch")
    assert settings(parcels.api, plan) == ("default_pool", "default", "LocalExecutor")


def settings(api: AirflowApi, task: Task) -> tuple[str, str, str | None]:
    """Return the pool, the queue, and the executor of a task instance."""
    found = api.get(f"/dags/{task.run.dag_id}/dagRuns/{task.run.id}/taskInstances/{task.id}")
    return found["pool"], found["queue"], found["executor"]


def test_a_task_of_a_queue_waits_for_a_worker_of_that_queue(celery_stack: LocalStack, api: AirflowApi) -> None:
    letters = flow_of(celery_stack, api, "letters", 1)
    letters.until_waiting()
    places = letters.trigger.produce(some_events(EACH, 1))
    (run, *_) = eventually(letters.ingest_runs, seconds=SECONDS, what="a batch") or []
    eventually(lambda: letters.create(run).state == "queued", seconds=SECONDS, what="a task in its queue")
    assert letters.trigger.count() == 0
    celery_stack.start_worker("worker-late", queues="late")
    letters.until_ingested(places)


def test_a_triggerer_a_scheduler_and_a_worker_are_killed_at_their_work_and_nothing_is_lost_or_doubled(
    celery_stack: LocalStack, parcels: Flow, produced: list[Place]
) -> None:
    """All work at the same messages: the triggerer awaits them, the scheduler plans them, the worker ingests them."""
    parts = {component.name: component for component in celery_stack.airflow.components}
    wait = parcels.until_waiting()
    with commits_in_order(parcels.trigger):
        triggerer = next(part for part in both("triggerer", parts) if has_open(part, wait))
        with parcels.trigger.planning_held():
            triggerer.kill()
            produced += parcels.trigger.produce(some_events(EACH, PARTITIONS, first=EACH))
            schedulers = both("scheduler", parts)
            scheduler, plan = until_at_work(schedulers, lambda: [parcels.api.task(wait.run, "plan_batch")])
            scheduler.kill()
        workers = [parts["worker-1"], parts["worker-2"]]
        worker, create = until_at_work(workers, lambda: [parcels.create(run) for run in parcels.ingest_runs()])
        worker.kill()
        for number in (2, 3):
            produced += parcels.trigger.produce(some_events(EACH, PARTITIONS, first=number * EACH))
            parcels.until_ingested(produced)
    (left,) = (part for part in workers if part is not worker)
    eventually(lambda: received(worker) & received(left), seconds=SECONDS, what="a message of the killed worker")
    eventually(lambda: runs(celery_stack).get("success") == len(produced), seconds=SECONDS, what="a run of each")
    parcels.until_ingested(produced)
    assert runs(celery_stack) == {"success": len(produced)}
    assert not any(part.process.running for part in (triggerer, scheduler, worker))
    for lost in (plan, create):
        assert parcels.api.task(lost.run, lost.id).try_number > lost.try_number, f"{lost.id} outlived its process"


def both(name: str, parts: dict[str, AirflowComponent]) -> list[AirflowComponent]:
    """Return the first component of a name, and the second."""
    return [parts[name], parts[f"{name}-2"]]


def has_open(triggerer: AirflowComponent, task: Task) -> bool:
    """Return whether a triggerer runs the trigger of a deferred task, whose log it then has open."""
    folder = f"/dag_id={task.run.dag_id}/run_id={task.run.id}/task_id={task.id}/"
    return any(folder in file.path for file in psutil.Process(triggerer.process.pid).open_files())


def until_at_work(components: list[AirflowComponent], tasks: Callable[[], list[Task]]) -> tuple[AirflowComponent, Task]:
    """Wait until one of the components runs the process of a task, and return both."""

    def at_work() -> tuple[AirflowComponent, Task] | None:
        running = {task.pid: task for task in tasks() if task.state == "running"}
        for component in components:
            for process in psutil.Process(component.process.pid).children(recursive=True):
                if process.pid in running:
                    return component, running[process.pid]
        return None

    found = eventually(at_work, seconds=SECONDS, every=0.2, what="a task in a process of one of them")
    assert found is not None
    return found


def received(worker: AirflowComponent) -> set[str]:
    """Return the ids of the messages that a worker has fetched."""
    log = worker.process.log.read_text(encoding="utf-8", errors="replace")
    return set(re.findall(r"execute_workload\[([0-9a-f-]+)\] received", log))


def runs(stack: LocalStack) -> dict[str, int]:
    """Return how many runs of work orders are in each state."""
    with psycopg.connect(stack.database_url) as connection:
        found = connection.execute("SELECT state::text, count(*) FROM workorders.runs GROUP BY state").fetchall()
    return dict(found)
