"""Tasks that are held at a breakpoint while something is done to them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

from faults.breakpoints import EXECUTOR, Breakpoint
from faults.processes import owner_of
from faults.scene import Scene
from faults.tasks import Task


@dataclass(frozen=True, slots=True)
class Held:
    """A task, and the point at which one of its sessions is held."""

    task: Task
    point: Breakpoint

    @property
    def owner(self) -> psutil.Process:
        """The process whose session is held; not always the task's own."""
        return owner_of(*self.point.wait().ports)


@dataclass(frozen=True, slots=True)
class HeldAttempt(Held):
    """An attempt at a batch."""

    batch_id: int


@contextmanager
def held(scene: Scene, point: Breakpoint, start: Callable[[], Task]) -> Iterator[Held]:
    """Start a task and wait until it is held; it continues when released, or at the end.

    Raises:
        AssertionError: it did not come to the breakpoint.
    """
    with scene.site.postgres.breakpoint(point):
        task = start()
        point.wait()
        yield Held(task, point)


@contextmanager
def held_attempt(
    scene: Scene, point: Breakpoint, variables: Mapping[str, str] | None = None, *, grown: bool = False
) -> Iterator[HeldAttempt]:
    """Plan a batch, and hold an attempt at it as `held` does.

    Args:
        scene: the trigger.
        point: where the attempt is held.
        variables: of the attempt.
        grown: hold a worker when the batch has grown, and not before; so does the scene's mode.

    Raises:
        AssertionError: there was not exactly one batch to plan, or the attempt did not come to the breakpoint.
    """
    batch_id = scene.planned()
    if (grown or scene.mode.grown) and point.application == EXECUTOR:
        point.passing += len(scene.ranges(batch_id))
    with held(scene, point, lambda: scene.start_ingest(batch_id, variables)) as attempt:
        yield HeldAttempt(attempt.task, attempt.point, batch_id)
