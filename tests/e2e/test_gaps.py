"""A gap in a sequence that does not close: the scheduler's own run of the DAG that watches it, and what people see."""

from local_stack.stack import LocalStack
from support.airflow_api import AirflowApi, Run
from support.eventually import eventually
from support.flow import SECONDS
from workorders.core import triggers
from workorders.core.admission import gaps
from workorders.core.creation import manual
from workorders.core.creation.manual import ManualRequest
from workorders.core.postgres.connection import connect

DAG = "numbered_gaps"


def come(stack: LocalStack, *versions: int) -> None:
    """Let events of one order come, of a trigger as its file defines it."""
    with connect(stack.database_url) as connection:
        trigger = triggers.find(connection, "numbered")
        for version in versions:
            body = b'{"order": 7, "version": %d}' % version
            manual.create(connection, trigger, ManualRequest(body, actor="a test", reason="a test", key=None))


def gap_ages(stack: LocalStack) -> bool:
    """Return whether there is a gap that is older than the trigger's limit."""
    with connect(stack.database_url) as connection:
        (gap,) = gaps.gaps(connection, "numbered")
        row = connection.execute("SELECT %s + interval '1.5 s' < now()", [gap.parked_since]).fetchone()
    return bool(row and row[0])


def in_state(api: AirflowApi, state: str) -> list[Run]:
    return [run for run in api.runs(DAG) if run.state == state]


def test_a_gap_that_lasts_is_a_red_run_that_reports_it_once_and_green_again_when_it_is_closed(
    airflow_stack: LocalStack, api: AirflowApi
) -> None:
    (watched, *_) = eventually(lambda: in_state(api, "success"), seconds=SECONDS, what="a run by the schedule", every=1)
    assert watched.id.startswith("scheduled__")
    form = {"body": {"order": 7, "version": 1}, "reason": "the first, by the form, which registers the trigger"}
    api.trigger("numbered_manual", form)
    eventually(lambda: registered(airflow_stack), seconds=SECONDS, what="the first event")
    come(airflow_stack, 3, 4)
    eventually(lambda: gap_ages(airflow_stack), seconds=SECONDS, what="the age of the gap")
    api.trigger(DAG, {})
    (red,) = eventually(lambda: in_state(api, "failed"), seconds=SECONDS, what="a red run")
    task = api.task(red, "check_gaps")
    assert "gap above number 1 since" in api.error(task)
    assert "2 work orders are parked above it" in api.error(task)
    assert "workorders sequences skip numbered" in api.error(task)
    assert "Called for numbered with 2 parked, cleared: False." in api.log_text(task)
    assert task.try_number == 1
    come(airflow_stack, 2)
    sent = api.trigger(DAG, {})
    eventually(lambda: sent in {run.id for run in in_state(api, "success")}, seconds=SECONDS, what="a green run")
    assert len(in_state(api, "failed")) == 1
    logs = "\n".join(api.log_text(api.task(run, "check_gaps")) for run in in_state(api, "success"))
    assert "its high-water mark is 4" in logs
    assert "Called for numbered with 0 parked, cleared: True." in logs


def registered(stack: LocalStack) -> bool:
    """Return whether an event of the trigger has come."""
    with connect(stack.database_url) as connection:
        row = connection.execute(
            """
            SELECT EXISTS (
                SELECT FROM workorders.work_orders JOIN workorders.triggers ON triggers.id = work_orders.trigger_id
                WHERE triggers.name = 'numbered'
            )
            """
        ).fetchone()
    return bool(row and row[0])
