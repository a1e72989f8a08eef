"""The public sensor and operators in DAGs that a person wrote by hand, with a sensor that a worker starts."""

from support.airflow_api import AirflowApi
from support.flow import Flow
from support.observed_trigger import ObservedTrigger, some_events


def test_the_same_way_with_a_sensor_that_starts_on_a_worker(
    api: AirflowApi, triggers: dict[str, ObservedTrigger]
) -> None:
    flow = Flow(api, triggers["own"], wait_task="wait", create_task="create")
    flow.until_ingested(flow.trigger.produce(some_events(40, 1)))
    sensor = api.task(flow.finished_listener_runs()[0], "wait")
    assert sensor.state == "success"
    # What a worker leaves behind, and a task that the scheduler defers at once does not.
    assert sensor.hostname
    assert "Waiting for messages on e2e.own." in api.log_text(sensor)
