"""The public sensor and operators in DAGs that a person wrote by hand, with a sensor that a worker starts."""

import re

import pytest

from support.airflow_api import AirflowApi
from support.eventually import eventually
from support.flow import SECONDS, Flow
from support.observed_trigger import ObservedTrigger, some_events

pytestmark = pytest.mark.long

MESSAGES = 40


@pytest.fixture(scope="module")
def own(api: AirflowApi, triggers: dict[str, ObservedTrigger]) -> Flow:
    """The trigger of the hand-written DAGs, which has ingested its messages."""
    flow = Flow(api, triggers["own"], wait_task="wait", create_task="create")
    flow.until_ingested(flow.trigger.produce(some_events(MESSAGES, 1)))
    return flow


def test_the_same_way_with_a_sensor_that_starts_on_a_worker(own: Flow) -> None:
    sensor = own.api.task(own.finished_listener_runs()[0], "wait")
    assert sensor.state == "success"
    # What a worker leaves behind, and a task that the scheduler defers at once does not.
    assert sensor.hostname
    assert "Waiting for messages on e2e.own." in own.api.log_text(sensor)


def test_a_dag_on_the_asset_of_a_trigger_runs_after_each_ingest_with_its_counts(own: Flow) -> None:
    def announced() -> int:
        runs = [run for run in own.api.runs("after_orders") if run.state == "success"]
        logs = [own.api.log_text(own.api.task(run, "report")) for run in runs]
        return sum(int(created) for log in logs for created in re.findall(r"'created': (\d+)", log))

    eventually(lambda: announced() >= MESSAGES, seconds=SECONDS, what="runs of a Dag on the trigger's asset")
    assert announced() == MESSAGES
