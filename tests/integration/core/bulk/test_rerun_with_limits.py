"""Reruns of a workflow with limits: all are done, and counted."""

import pytest

from support.admission import events, ids, limit, register
from support.runs import finish_all
from workorders.core import triggers
from workorders.core.attribution import Attribution
from workorders.core.bulk import jobs, runner
from workorders.core.bulk.jobs import Job
from workorders.core.creation.work_orders import create_for
from workorders.core.exceptions import LimitReachedError
from workorders.core.history import work_orders
from workorders.core.history.filters import Filter
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger

pytestmark = pytest.mark.integration


def failed(connection: Connection, name: str, inputs: str) -> None:
    """Create work orders that have failed."""
    create_for(connection, register(connection, name), events(inputs), fresh=True)
    connection.commit()
    finish_all(connection, name, "failed")


def limited(connection: Connection, name: str, on_reached: str = "reject", **limits: int) -> Trigger:
    limit(connection, name, on_reached=on_reached, **limits)
    connection.commit()
    return triggers.find(connection, name)


def rerun(connection: Connection, wanted: Filter) -> Job:
    job = jobs.create_job(connection, "rerun", wanted, Attribution("ada", "a test"))
    connection.commit()
    return runner.run_job(connection, job.id, step=2)


def states(connection: Connection, name: str) -> dict[str, int]:
    connection.rollback()
    return work_orders.count_by_state(connection, Filter(trigger=name))


def counted(connection: Connection, trigger: Trigger) -> int:
    (admitted,) = connection.execute(
        "SELECT admitted FROM workorders.workflow_counts WHERE workflow_id = %s", (trigger.workflow_id,)
    ).fetchone() or (0,)
    return int(admitted)


@pytest.mark.parametrize("on_reached", ["wait", "reject"])
@pytest.mark.parametrize("which", ["max_waiting", "max_per_day"])
def test_limits_count_reruns_and_neither_reject_nor_delay_them(
    connection: Connection, name: str, which: str, on_reached: str
) -> None:
    failed(connection, name, "abc")
    create_for(connection, limited(connection, name, max_waiting=1), events("defg", 3), fresh=True)
    trigger = limited(connection, name, on_reached, **{which: 2})
    assert states(connection, name) == {"failed": 3, "pending": 1, "rejected": 3}
    before = counted(connection, trigger)
    *_, refused = ids(connection, trigger)
    for wanted, done in ((Filter(trigger=name, state="failed"), 3), (Filter(selected=(refused,)), 1)):
        job = rerun(connection, wanted)
        assert (job.state, job.done, dict(job.skipped)) == ("finished", done, {})
    assert states(connection, name) == {"pending": 1, "rejected": 2, "requeued": 4}
    assert counted(connection, trigger) - before == 4


@pytest.mark.parametrize("which", ["max_waiting", "max_per_day"])
def test_a_rerun_leaves_no_more_room_than_there_is_to_new_events(connection: Connection, name: str, which: str) -> None:
    failed(connection, name, "abc")
    trigger = limited(connection, name, "wait", **{which: 4})
    rerun(connection, Filter(trigger=name))
    with connection.transaction():
        create_for(connection, trigger, events("d", 3), fresh=True)
    with pytest.raises(LimitReachedError), connection.transaction():
        create_for(connection, trigger, events("e", 4), fresh=True)
