"""`make up EXECUTOR=celery`: two Celery workers, two schedulers, and two triggerers, of which one each is killed."""

import re
from collections.abc import Iterator
from typing import Any

import psutil
import psycopg
import pytest
import yaml

from local_stack.airflow import AirflowComponent
from local_stack.stack import LocalStack
from support.airflow_api import AirflowApi, Task
from support.debian import require_debian
from support.eventually import eventually
from support.flow import SECONDS, Flow
from support.observed_trigger import ObservedTrigger, Place, some_events
from support.sampler import commits_in_order

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

EACH = 60
PARTITIONS = 3
REDELIVERED_AFTER = {"AIRFLOW__CELERY_BROKER_TRANSPORT_OPTIONS__VISIBILITY_TIMEOUT": "60"}
"""Redis gives a message again that no worker has acknowledged within a minute, instead of a day."""
DEFINITIONS: dict[str, list[dict[str, Any]]] = {
    "triggers": [
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
    ],
    "workflows": [{"name": "echo", "callable": "support.run_functions:echo", "workers": 2}],
}


@pytest.fixture(scope="module")
def celery_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    """Postgres, Kafka, Redis, and Airflow with two of everything that may be there twice."""
    require_debian("redis-server")
    folder = tmp_path_factory.mktemp("definitions")
    for kind, contents in DEFINITIONS.items():
        (folder / kind).mkdir()
        for content in contents:
            (folder / kind / f"{content['name']}.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    with LocalStack(
        airflow=True,
        spark_connect=True,
        celery=True,
        triggers_folder=folder / "triggers",
        workflows_folder=folder / "workflows",
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
    trigger = ObservedTrigger(
        name, f"celery.{name}", kafka_settings=stack.kafka_settings, database_url=stack.database_url
    )
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


def test_one_worker_one_scheduler_and_one_triggerer_are_killed_and_nothing_is_lost_or_doubled(
    celery_stack: LocalStack, parcels: Flow, produced: list[Place]
) -> None:
    parcels.until_waiting()
    parts = {component.name: component for component in celery_stack.airflow.components}
    with commits_in_order(parcels.trigger):
        produced += parcels.trigger.produce(some_events(EACH, PARTITIONS, first=EACH))
        worker = eventually(
            lambda: worker_at_work(parcels, [parts["worker-1"], parts["worker-2"]]),
            seconds=SECONDS,
            every=0.2,
            what="a worker with a batch",
        )
        assert worker is not None
        worker.kill()
        for number, name in enumerate(("scheduler", "triggerer"), start=2):
            produced += parcels.trigger.produce(some_events(EACH, PARTITIONS, first=number * EACH))
            parts[name].kill()
        parcels.until_ingested(produced)
        produced += parcels.trigger.produce(some_events(EACH, PARTITIONS, first=4 * EACH))
        parcels.until_ingested(produced)
    left = parts["worker-2" if worker.name == "worker-1" else "worker-1"]
    eventually(lambda: received(worker) & received(left), seconds=SECONDS, what="a message of the killed worker")
    eventually(lambda: runs(celery_stack).get("success") == len(produced), seconds=SECONDS, what="a run of each")
    parcels.until_ingested(produced)
    assert runs(celery_stack) == {"success": len(produced)}
    for name in (worker.name, "scheduler", "triggerer"):
        assert not parts[name].process.running
    lost = [task for run in parcels.ingest_runs() if (task := parcels.create(run)).try_number > 1]
    assert lost, "the worker was killed without a batch"


def worker_at_work(flow: Flow, workers: list[AirflowComponent]) -> AirflowComponent | None:
    """Return the worker that runs the task of a batch now."""
    pids = {flow.create(run).pid for run in flow.ingest_runs() if flow.create(run).state == "running"}
    for worker in workers:
        below = {child.pid for child in psutil.Process(worker.process.pid).children(recursive=True)}
        if pids & below:
            return worker
    return None


def received(worker: AirflowComponent) -> set[str]:
    """Return the ids of the messages that a worker has fetched."""
    log = worker.process.log.read_text(encoding="utf-8", errors="replace")
    return set(re.findall(r"execute_workload\[([0-9a-f-]+)\] received", log))


def runs(stack: LocalStack) -> dict[str, int]:
    """Return how many runs of work orders are in each state."""
    with psycopg.connect(stack.database_url) as connection:
        found = connection.execute("SELECT state::text, count(*) FROM workorders.runs GROUP BY state").fetchall()
    return dict(found)
