"""A person decides by the form how a partition continues whose messages retention ate."""

from typing import Any

import pytest

from support.airflow_api import AirflowApi, Run, Task
from support.eventually import eventually
from support.flow import SECONDS, Flow
from support.observed_trigger import ObservedTrigger, Place, some_events

FORM: dict[str, Any] = {
    "trigger": "decisions",
    "decision": "skip-lost",
    "topic": "e2e.decisions",
    "partitions": [],
    "offset": None,
    "reason": "retention was short",
}


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


def submit(flow: Flow, **fields: Any) -> Run:
    """Send the form and wait until its run has ended."""
    dag_id = "workorders_resolve"
    sent = flow.api.trigger(dag_id, {**FORM, **fields})

    def ended() -> Run | None:
        return next(
            (run for run in flow.api.runs(dag_id) if run.id == sent and run.state in {"success", "failed"}), None
        )

    run = eventually(ended, seconds=SECONDS, what="the end of a decision")
    assert run is not None
    return run


def second_try(flow: Flow, run: Run) -> Task:
    """Return the task of a run that was cleared, when it has ended."""

    def ended() -> Task | None:
        task = flow.api.task(run, "apply_decision")
        return task if task.try_number > 1 and task.state in {"success", "failed"} else None

    task = eventually(ended, seconds=SECONDS, what="the end of a cleared decision")
    assert task is not None
    return task


def test_a_form_that_is_sent_as_it_is_shows_what_would_be_lost_and_changes_nothing(
    decisions: Flow, kept: list[Place]
) -> None:
    run = submit(decisions, dry_run=True)
    assert run.state == "success"
    log = decisions.api.log_text(decisions.api.task(run, "apply_decision"))
    assert "offsets [0, 20) (20) get no work order" in log
    assert "Nothing was changed" in log
    assert decisions.trigger.next_offsets() == {0: 0}


@pytest.fixture(scope="module")
def decided(decisions: Flow, kept: list[Place]) -> Run:
    """The run that made the decision."""
    # While a try of the stalled batch is at work, the decision is refused; the next one falls between two tries.
    run = eventually(
        lambda: next((run for run in [submit(decisions, dry_run=False)] if run.state == "success"), None),
        seconds=SECONDS,
        what="a decision between two tries",
    )
    assert run is not None
    return run


def test_without_the_dry_run_the_trigger_continues_and_the_stalled_task_succeeds(
    decisions: Flow, kept: list[Place], decided: Run
) -> None:
    decisions.until_ingested(kept)
    stalled = decisions.create(decisions.ingest_runs()[0])
    assert stalled.state == "success"
    assert "was superseded by decision" in decisions.api.log_text(stalled)


def test_a_run_that_is_cleared_reports_what_it_decided_and_decides_nothing(
    decisions: Flow, kept: list[Place], decided: Run
) -> None:
    decisions.until_ingested(kept)
    before = decisions.trigger.next_offsets()
    decisions.api.clear_task(decided, "apply_decision")
    task = second_try(decisions, decided)
    assert task.state == "success"
    assert "This Dag run has decided already; nothing was changed now." in decisions.api.log_text(task)
    assert decisions.trigger.next_offsets() == before


def test_a_run_that_was_cleared_before_it_decided_is_refused(decisions: Flow, kept: list[Place], decided: Run) -> None:
    refused = submit(decisions, dry_run=False)
    assert refused.state == "failed"
    decisions.api.clear_task(refused, "apply_decision")
    task = second_try(decisions, refused)
    assert "Airflow does not tell who cleared it; nothing was decided" in decisions.api.error(task)
