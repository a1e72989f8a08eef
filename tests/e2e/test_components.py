"""Airflow's own processes, killed while messages come: the next process continues, and nothing is done twice."""

import pytest

from local_stack.stack import LocalStack
from support.airflow_api import AirflowApi
from support.eventually import eventually
from support.flow import SECONDS, Flow
from support.killed_components import kill_and_start, listening
from support.observed_trigger import ObservedTrigger, Place, some_events
from support.sampler import commits_in_order

NAMES = ("scheduler", "triggerer", "dag-processor", "api-server")
EACH = 20


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


def is_well(stack: LocalStack) -> bool:
    """Return whether all components report that they are well."""
    return {part["status"] for part in stack.airflow.health().values()} == {"healthy"}


def at_work(flow: Flow) -> bool:
    """Return whether a task of the ingest is at work."""
    return any(task.state == "running" for run in flow.ingest_runs() for task in flow.api.tasks(run))
