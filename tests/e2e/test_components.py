"""Airflow's own processes, killed while messages come: the next process continues, and nothing is done twice."""

import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil
import psycopg
import pytest

from local_stack.airflow import AirflowComponent, restart_ended
from local_stack.killing import kill_family
from local_stack.stack import AIRFLOW_DATABASE, LocalStack
from support.airflow_api import AirflowApi
from support.eventually import eventually
from support.flow import SECONDS, Flow
from support.observed_trigger import ObservedTrigger, Place, some_events
from support.sampler import commits_in_order

NAMES = ("scheduler", "triggerer", "dag-processor", "api-server")
EACH = 20
END_SESSIONS = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = %s"


@pytest.fixture(scope="module")
def components(api: AirflowApi, triggers: dict[str, ObservedTrigger]) -> Flow:
    """The trigger whose messages come while components die."""
    return Flow(api, triggers["components"])


def test_every_component_may_be_killed_and_started_while_batches_go_through(
    airflow_stack: LocalStack, components: Flow
) -> None:
    components.until_waiting()
    parts = {component.name: component for component in airflow_stack.airflow.components}
    places: list[Place] = []
    with commits_in_order(components.trigger):
        for number, name in enumerate(NAMES):
            places += components.trigger.produce(some_events(EACH, 2, first=number * EACH))
            if number == 0:
                # The first one dies while it has a task at work, the others wherever the batches are by then.
                eventually(lambda: at_work(components), seconds=SECONDS, what="a batch at work")
            kill_and_start(parts[name])
        components.until_ingested(places)
    eventually(lambda: is_well(airflow_stack), seconds=SECONDS, what="the health of all components")


def test_listens_on_the_loopback_interface_only(airflow_stack: LocalStack) -> None:
    assert listening(airflow_stack) == {"127.0.0.1"}


@pytest.mark.long
def test_a_second_triggerer_takes_over_from_one_that_sleeps_and_then_wakes(
    airflow_stack: LocalStack, components: Flow
) -> None:
    start_ended(airflow_stack)
    components.until_waiting()
    produced = [Place(number, at) for number, found in components.trigger.work_orders().items() for at in found]
    with another_triggerer(airflow_stack, components.api):
        first = psutil.Process(airflow_stack.airflow.triggerer.process.pid)
        sleeping = [first, *first.children(recursive=True)]
        for process in sleeping:
            process.suspend()
        try:
            produced += components.trigger.produce(some_events(20, 2))
            eventually(
                lambda: components.trigger.count() >= len(produced),
                seconds=SECONDS,
                what="work orders by the second one",
            )
        finally:
            for process in sleeping:
                process.resume()
        produced += components.trigger.produce(some_events(20, 2, first=20))
        components.until_ingested(produced)
    # The waits of the one that was killed are taken over, too.
    start_ended(airflow_stack)
    produced += components.trigger.produce(some_events(20, 2, first=40))
    components.until_ingested(produced)
    assert {run.id for run in components.ingest_runs()} == {
        f"batch_{batch['id']}" for batch in components.trigger.batches()
    }


@pytest.mark.long
def test_components_that_lost_their_sessions_are_started_again_and_batches_go_through(
    airflow_stack: LocalStack, components: Flow
) -> None:
    start_ended(airflow_stack)
    components.until_waiting()
    produced = [Place(number, at) for number, found in components.trigger.work_orders().items() for at in found]
    with psycopg.connect(airflow_stack.postgres.url("postgres"), autocommit=True) as connection:
        ended = connection.execute(END_SESSIONS, [AIRFLOW_DATABASE]).fetchone()
    assert ended != (0,)
    produced += components.trigger.produce(some_events(EACH, 2, first=5 * EACH))
    restarts: Counter[str] = Counter()

    def continues() -> bool:
        # As `make up` does.
        for line in restart_ended(airflow_stack.airflow.components, restarts):
            print(line)
        return components.trigger.count() >= len(produced)

    eventually(continues, seconds=2 * SECONDS, what="work orders by the components that were started again", every=1)
    assert restarts
    components.until_ingested(produced)
    eventually(
        lambda: continues() and is_well(airflow_stack), seconds=SECONDS, what="the health of all components", every=1
    )


def is_well(stack: LocalStack) -> bool:
    """Return whether all components report that they are well."""
    return {part["status"] for part in stack.airflow.health().values()} == {"healthy"}


def at_work(flow: Flow) -> bool:
    """Return whether a task of the ingest is at work."""
    return any(task.state == "running" for run in flow.ingest_runs() for task in flow.api.tasks(run))


def kill_and_start(component: AirflowComponent) -> None:
    """Kill a component, start it again, and wait until it is well.

    The scheduler's tasks live on, and a new scheduler finds them at work. Only the api-server takes its child along,
    which would keep its port.
    """
    before = component.process.pid
    component.kill(descendants=component.name == "api-server")
    assert not component.process.running
    component.start()
    assert component.process.pid != before


def start_ended(stack: LocalStack) -> None:
    """Start the components that have ended: they do so when their own database goes away."""
    for component in stack.airflow.components:
        if not component.process.running:
            component.start()


def listening(stack: LocalStack) -> set[str]:
    """Return the addresses at which the stack's processes listen."""
    addresses = set()
    for process in psutil.Process(stack.supervisor_pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it has just ended, as Postgres' helpers do all the time
            listens = [found for found in process.net_connections(kind="inet") if found.status == psutil.CONN_LISTEN]
            addresses |= {connection.laddr.ip.removeprefix("::ffff:") for connection in listens}
    return addresses


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
            kill_family(process.pid, seconds=SECONDS)
            process.wait()


def triggerers(api: AirflowApi) -> int:
    """Return how many triggerers are alive."""
    return len(api.get("/jobs", job_type="TriggererJob", is_alive=True)["jobs"])
