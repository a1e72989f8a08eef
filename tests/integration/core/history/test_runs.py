from uuid import UUID, uuid4

import pytest

from support.finished_steps import add_step
from support.runs import finish_all
from support.work_orders import accepted
from support.working import Working
from workorders.core import triggers
from workorders.core.attribution import Attribution
from workorders.core.bulk.runner import rerun_work_orders
from workorders.core.creation.work_orders import create_for
from workorders.core.exceptions import UnknownNameError
from workorders.core.history import runs
from workorders.core.history.runs import list_steps, runs_of
from workorders.core.postgres.connection import Connection
from workorders.core.runs import lifecycle
from workorders.core.triggers import Trigger

pytestmark = pytest.mark.integration


def test_an_excerpt_has_the_beginning_of_the_output_and_the_end_of_the_log(
    connection: Connection, trigger: Trigger
) -> None:
    run_id = finished(connection, trigger)
    whole = runs.get_run(connection, run_id)
    assert (whole.output, whole.log) == ('{\n    "done": 1\n}', "a line")
    found = runs.get_run(connection, run_id, max_characters=6)
    assert (found.output, found.output_bytes) == ("{\n    ", 17)
    assert (found.log, found.has_earlier_log) == ("a line", False)
    found = runs.get_run(connection, run_id, max_characters=5)
    assert (found.log, found.has_earlier_log) == (" line", True)
    assert (found.id, found.state, found.attempt) == (whole.id, whole.state, whole.attempt)


def test_an_excerpt_measures_a_log_in_characters(connection: Connection, trigger: Trigger) -> None:
    run_id = finished(connection, trigger)
    connection.execute("UPDATE workorders.run_results SET log = 'äöü' WHERE run_id = %s", [run_id])
    found = runs.get_run(connection, run_id, max_characters=3)
    assert (found.log, found.has_earlier_log) == ("äöü", False)


def test_a_run_without_output_and_log_has_an_empty_excerpt(connection: Connection, trigger: Trigger) -> None:
    run_id = finished(connection, trigger)
    connection.execute("DELETE FROM workorders.run_results WHERE run_id = %s", [run_id])
    found = runs.get_run(connection, run_id, max_characters=5)
    assert (found.output, found.output_bytes, found.log, found.has_earlier_log) == (None, None, None, False)


def test_a_run_without_a_live_worker_is_not_shown_as_at_work(connection: Connection, name: str) -> None:
    working = Working.on(connection, name)
    working.create_some(1)
    worker = working.claim_as_worker()
    lifecycle.start(connection, worker.id, worker.run_ids, begin_later=True)
    (listed,) = runs.list_runs(connection, workflow=name)
    assert (listed.shown_state, listed.started_at) == ("started", listed.claimed_at)
    worker.fall_silent()
    (listed,) = runs.list_runs(connection, workflow=name)
    assert (listed.state, listed.shown_state, listed.started_at) == ("started", "owner gone", None)
    assert runs.get_run(connection, listed.id).shown_state == "owner gone"
    lifecycle.recover_lost(connection, working.workflow)
    (listed,) = runs.list_runs(connection, workflow=name)
    assert listed.shown_state == "lost"


def test_an_unknown_run_is_reported(connection: Connection) -> None:
    id_ = uuid4()
    with pytest.raises(UnknownNameError, match=str(id_)):
        runs.get_run(connection, id_)


def finished(connection: Connection, trigger: Trigger) -> UUID:
    """Return the id of a run that has ended, of a new work order."""
    create_for(connection, trigger, [accepted("s", 0)])
    connection.commit()
    (run,) = finish_all(connection, trigger.workflow)
    return run.run_id


def test_a_run_has_the_steps_of_its_generation_that_were_finished_when_it_ended(
    connection: Connection, name: str
) -> None:
    trigger = triggers.register(connection, name=name, type_="plain", workflow=name, definition={})
    create_for(connection, trigger, [accepted("s", 0)])
    finished = []
    for from_start in (False, False, True):
        (run,) = finish_all(connection, name, "failed")
        add_step(connection, run.run_id, "label" if from_start else f"step {run.attempt}", {"n": run.attempt})
        finished.append(run)
        rerun_work_orders(connection, [run.work_order_id], Attribution("ada", "a test"), from_start=from_start)
    (again,) = finish_all(connection, name, "failed")
    add_step(connection, again.run_id, "step 1", "again", committed_elsewhere=True)
    found = list_steps(connection, again.work_order_id)
    assert [(step.name, step.kind, step.generation, step.attempt, step.result) for step in found] == [
        ("step 1", "step", 1, 1, '{"n": 1}'),
        ("step 2", "step", 1, 2, '{"n": 2}'),
        ("label", "step", 1, 3, '{"n": 3}'),
        ("step 1", "transaction", 2, 4, '"again"'),
    ]
    rows = [runs.get_run(connection, run.run_id) for run in [*finished, again]]
    assert [[step.attempt for step in list_steps(connection, run.work_order_id, until=run)] for run in rows] == [
        [1],
        [1, 2],
        [1, 2, 3],
        [4],
    ]
    assert [run.generation for run in runs_of(connection, again.work_order_id)] == [1, 1, 1, 2]


def test_a_replay_of_its_event_leaves_the_steps_and_the_runs_of_a_work_order(connection: Connection, name: str) -> None:
    trigger = triggers.register(connection, name=name, type_="plain", workflow=name, definition={})
    create_for(connection, trigger, [accepted("s", 0)])
    (run,) = finish_all(connection, name, "failed")
    add_step(connection, run.run_id, "label", "L-1")
    before = list_steps(connection, run.work_order_id)
    create_for(connection, trigger, [accepted("s", 0)], fresh=False)
    assert list_steps(connection, run.work_order_id) == before
    assert [found.id for found in runs_of(connection, run.work_order_id)] == [run.run_id]


def test_a_large_result_is_read_as_far_as_it_is_shown(connection: Connection, name: str) -> None:
    trigger = triggers.register(connection, name=name, type_="plain", workflow=name, definition={})
    create_for(connection, trigger, [accepted("s", 0)])
    (run,) = finish_all(connection, name)
    add_step(connection, run.run_id, "large", "x" * 5_000)
    (step,) = list_steps(connection, run.work_order_id, max_characters=100)
    assert (len(step.result), step.result_bytes) == (100, 5_002)
