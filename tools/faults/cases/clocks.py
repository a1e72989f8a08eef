"""Clocks that differ."""

import os
from pathlib import Path

from faults.breakpoints import BEFORE_COMMIT, EXECUTOR, Breakpoint
from faults.catalogue import NotPossibleError, fault
from faults.holding import held_attempt
from faults.processes import java_of, kill
from faults.scene import Scene
from faults.site import PYTHON_PATH
from local_stack.waiting import wait_until

_HOUR = 3600
_SECONDS = 60.0
_ANOTHER_CLOCK = Path(__file__).parents[1] / "another_clock"
_HOURS_OF_IDS = """
    SELECT DISTINCT round(extract(epoch FROM uuid_extract_timestamp(orders.id) - now()) / 3600)::integer AS hours
    FROM workorders.work_orders AS orders
    JOIN workorders.triggers ON triggers.id = orders.trigger_id
    WHERE triggers.name = %(trigger)s
    ORDER BY hours
"""


def clock(shift_seconds: int) -> dict[str, str]:
    """Return the variables that give a process a clock that is so many seconds ahead."""
    return {
        "PYTHONPATH": os.pathsep.join([str(_ANOTHER_CLOCK), PYTHON_PATH]),
        "FAULTS_CLOCK_SECONDS": str(shift_seconds),
    }


@fault("two attempts whose clocks are two hours apart")
def clocks_apart(scene: Scene) -> None:
    if scene.mode.grown:
        raise NotPossibleError("the worker that is held has the last range of the batch, so no ids are left to make")
    with held_attempt(scene, Breakpoint(EXECUTOR, BEFORE_COMMIT), clock(_HOUR)) as ahead:
        assert wait_until(lambda: any(scene.ranges(ahead.batch_id).values()), seconds=_SECONDS)
        kill(java_of(ahead.task.pid))
    scene.lifted()
    ahead.task.fail()
    scene.start_ingest(ahead.batch_id, clock(-_HOUR)).wait()
    # The ids carry the clock of the process that made them.
    assert [hours for (hours,) in scene.site.admin(_HOURS_OF_IDS, {"trigger": scene.name})] == [-1, 1]
    scene.injected += 1
