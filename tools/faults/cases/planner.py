"""Faults of the listener's planning task."""

from faults.breakpoints import BEFORE_COMMIT, PLANNER, Breakpoint
from faults.catalogue import fault
from faults.database import until_waiting_for_a_lock
from faults.holding import held
from faults.processes import kill, stopped
from faults.scene import Scene

# The planner commits a look at the ledger before; meant is the commit of the batch.
_OF_THE_BATCH = b"INSERT INTO workorders.kafka_batches"


@fault("planner killed in its transaction")
def planner_killed(scene: Scene) -> None:
    with held(scene, Breakpoint(PLANNER, BEFORE_COMMIT, _OF_THE_BATCH), scene.start_plan) as plan:
        kill(plan.owner)
        scene.injected += 1
    plan.task.fail()
    assert scene.trigger.ranges() == []


@fault("planner stopped in its transaction next to a second one")
def planner_stopped(scene: Scene) -> None:
    with held(scene, Breakpoint(PLANNER, BEFORE_COMMIT, _OF_THE_BATCH), scene.start_plan) as first:
        with stopped(first.owner):
            second = scene.start_plan()
            until_waiting_for_a_lock(scene.site, "workorders plan")
            scene.injected += 1
            first.point.release()
        planned = [task.answer()["planned"] for task in (first.task, second)]
    # A range that came in between may be the second one's; a partition twice may not.
    assert planned[0] is not None
    assert len({row["partition"] for row in scene.trigger.ranges()}) == len(scene.trigger.ranges())


@fault("planner's COMMIT sent and no answer", short=True)
def planner_without_answer(scene: Scene) -> None:
    point = Breakpoint(PLANNER, BEFORE_COMMIT, _OF_THE_BATCH, lose_answer=True)
    with held(scene, point, scene.start_plan) as plan:
        scene.injected += 1
    plan.task.fail()
    recorded = {row["batch_id"] for row in scene.trigger.ranges()}
    assert len(recorded) == 1, "the COMMIT did not happen"
    assert set(scene.plan()) == recorded
