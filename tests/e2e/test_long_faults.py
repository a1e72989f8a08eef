"""Faults that take minutes, for which `make test` has no time: `pytest -m long tests/e2e`."""

import os
import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest

from local_stack.stack import LocalStack
from support.airflow_api import AirflowApi
from support.eventually import eventually
from support.flow import SECONDS, Flow
from support.killed_components import kill_and_start, start_ended
from support.observed_trigger import ObservedTrigger, Place, some_events
from support.sampler import commits_in_order

pytestmark = pytest.mark.long

AWAY_SECONDS = 60.0
ROUNDS = 8
LONGEST_PAUSE_SECONDS = 10.0
SEED_VARIABLE = "WORKORDERS_FAULTS_SEED"


@pytest.fixture(scope="module")
def flow(api: AirflowApi, triggers: dict[str, ObservedTrigger]) -> Flow:
    """The trigger whose messages come meanwhile."""
    return Flow(api, triggers["components"])


@pytest.fixture(scope="module")
def produced(flow: Flow) -> list[Place]:
    """Everything that was produced so far, by the other modules' tests as well."""
    return [Place(partition, at) for partition, found in flow.trigger.work_orders().items() for at in found]


def test_both_databases_away_for_a_minute_during_a_batch(
    airflow_stack: LocalStack, flow: Flow, produced: list[Place]
) -> None:
    flow.until_waiting()
    produced += flow.trigger.produce(some_events(20, 2))
    eventually(flow.unfinished, seconds=SECONDS, what="a batch on its way")
    # The metadata database is on the same server as the work orders.
    airflow_stack.postgres.kill()
    try:
        produced += flow.trigger.produce(some_events(20, 2, first=20))
        time.sleep(AWAY_SECONDS)  # that is the fault, and nothing is waited for
    finally:
        airflow_stack.postgres.start()

    def continues() -> bool:
        start_ended(airflow_stack)
        return flow.trigger.count() >= len(produced)

    eventually(continues, seconds=SECONDS, what="work orders after a minute without Postgres")
    start_ended(airflow_stack)  # some notice late that their database was away
    flow.until_ingested(produced)


def test_a_second_triggerer_takes_over_from_one_that_sleeps_and_then_wakes(
    airflow_stack: LocalStack, flow: Flow, produced: list[Place]
) -> None:
    start_ended(airflow_stack)
    flow.until_waiting()
    with another_triggerer(airflow_stack, flow.api):
        first = psutil.Process(airflow_stack.airflow.triggerer.process.pid)
        sleeping = [first, *first.children(recursive=True)]
        for process in sleeping:
            process.suspend()
        try:
            produced += flow.trigger.produce(some_events(20, 2))
            eventually(
                lambda: flow.trigger.count() >= len(produced), seconds=SECONDS, what="work orders by the second one"
            )
        finally:
            for process in sleeping:
                process.resume()
        produced += flow.trigger.produce(some_events(20, 2, first=20))
        flow.until_ingested(produced)
    # The waits of the one that was killed are taken over, too.
    start_ended(airflow_stack)
    produced += flow.trigger.produce(some_events(20, 2, first=40))
    flow.until_ingested(produced)
    assert {run.id for run in flow.ingest_runs()} == {f"batch_{batch['id']}" for batch in flow.trigger.batches()}


def test_components_killed_at_random(airflow_stack: LocalStack, flow: Flow, produced: list[Place]) -> None:
    seed = int(os.environ.get(SEED_VARIABLE) or time.time_ns() % 1_000_000)
    print(f"{SEED_VARIABLE}={seed}")
    chosen = random.Random(seed)
    start_ended(airflow_stack)
    flow.until_waiting()
    with commits_in_order(flow.trigger):
        for number in range(ROUNDS):
            produced += flow.trigger.produce(some_events(20, 2, first=20 * number))
            time.sleep(chosen.uniform(0, LONGEST_PAUSE_SECONDS))  # any instant will do: that is what is tested
            kill_and_start(chosen.choice(airflow_stack.airflow.components))
        flow.until_ingested(produced)


@contextmanager
def another_triggerer(stack: LocalStack, api: AirflowApi) -> Iterator[None]:
    """Run a second triggerer next to the stack's, and kill it at the end."""
    with (stack.logs / "second-triggerer.log").open("wb") as log:
        process = subprocess.Popen(
            ["airflow", "triggerer", "--skip-serve-logs"], env=stack.environment(), stdout=log, stderr=log
        )
        try:
            eventually(lambda: triggerers(api) == 2, seconds=SECONDS, what="two triggerers")
            yield
        finally:
            children = psutil.Process(process.pid).children(recursive=True)
            process.kill()
            process.wait()
            for child in children:
                if child.is_running():
                    child.kill()


def triggerers(api: AirflowApi) -> int:
    """Return how many triggerers are alive."""
    return len(api.get("/jobs", job_type="TriggererJob", is_alive=True)["jobs"])
