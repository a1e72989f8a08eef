"""A person decides by a command how a partition continues whose messages retention ate."""

import pytest

from local_stack.stack import LocalStack
from support.airflow_api import AirflowApi
from support.command_on_stack import typed
from support.eventually import eventually
from support.flow import SECONDS, Flow
from support.observed_trigger import ObservedTrigger, Place, some_events


@pytest.fixture(scope="module")
def decisions(api: AirflowApi, triggers: dict[str, ObservedTrigger]) -> Flow:
    """The trigger on whose partition a person decides."""
    return Flow(api, triggers["decisions"])


@pytest.fixture(scope="module")
def kept(decisions: Flow) -> list[Place]:
    """Messages that Kafka still has, behind others that it deleted before they were read."""
    with decisions.held_back(some_events(20, 1)) as lost:
        decisions.trigger.delete_before(0, len(lost))
        places = decisions.trigger.produce(some_events(30, 1, first=20))
    decisions.until_failed(decisions.ingest_runs()[0])
    return places


def test_a_dry_run_shows_what_would_be_lost_and_the_decision_lets_the_stalled_task_succeed(
    airflow_stack: LocalStack, decisions: Flow, kept: list[Place]
) -> None:
    command = ("resolve", "skip-lost", "decisions", "e2e.decisions", "--reason", "retention was short")
    shown = typed(airflow_stack, *command, "--dry-run")
    assert "offsets [0, 20) (20) get no work order" in shown.stdout
    assert decisions.trigger.next_offsets() == {0: 0}
    # A decision is refused for a moment while a try of the stalled batch takes the partition.
    eventually(
        lambda: typed(airflow_stack, *command, "--yes").returncode == 0,
        seconds=SECONDS,
        what="a decision",
    )
    decisions.until_ingested(kept)
    stalled = decisions.create(decisions.ingest_runs()[0])
    assert stalled.state == "success"
    assert "was superseded by decision" in decisions.api.log_text(stalled)
