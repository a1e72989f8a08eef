"""Faults of the listener's planning task."""

from faults.breakpoints import BEFORE_COMMIT, PLANNER, Breakpoint
from faults.catalogue import fault
from faults.database import until_waiting_for_a_lock
from faults.processes import kill, owner_of, stopped
from faults.scene import Scene

# The planner commits a look at the ledger before; meant is the commit of the batch.
_OF_THE_BATCH = b"INSERT INTO workorders.kafka_batches"


@fault("planner killed in its transaction")
def planner_killed(scene: Scene) -> None:
    with scene.site.postgres.breakpoint(Breakpoint(PLANNER, BEFORE_COMMIT, _OF_THE_BATCH)) as point:
        task = scene.start_plan()
        kill(owner_of(point.wait().client_port))
        scene.injected += 1
    task.fail()
    assert scene.trigger.ranges() == []


@fault("planner stopped in its transaction beside a second one")
def planner_stopped(scene: Scene) -> None:
    with scene.site.postgres.breakpoint(Breakpoint(PLANNER, BEFORE_COMMIT, _OF_THE_BATCH)) as point:
        first = scene.start_plan()
        with stopped(owner_of(point.wait().client_port)):
            second = scene.start_plan()
            until_waiting_for_a_lock(scene.site, "workorders plan")
            scene.injected += 1
            point.release()
        planned = [task.answer()["planned"] for task in (first, second)]
    # A range that came in between may be the second one's; a partition twice may not.
    assert planned[0] is not None
    assert len({row["partition"] for row in scene.trigger.ranges()}) == len(scene.trigger.ranges())


@fault("planner's COMMIT sent and no answer", short=True)
def planner_without_answer(scene: Scene) -> None:
    with scene.site.postgres.breakpoint(Breakpoint(PLANNER, BEFORE_COMMIT, _OF_THE_BATCH, lose_answer=True)) as point:
        task = scene.start_plan()
        point.wait()
        scene.injected += 1
    task.fail()
    recorded = {row["batch_id"] for row in scene.trigger.ranges()}
    assert len(recorded) == 1, "the COMMIT did not happen"
    assert set(scene.plan()) == recorded
