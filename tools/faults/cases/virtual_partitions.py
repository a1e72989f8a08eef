"""Faults while the virtual partitions of a range are written.

After each fault, what was finished before it must never be written again.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from faults.breakpoints import EXECUTOR, Breakpoint
from faults.catalogue import NotPossibleError, fault
from faults.holding import HeldAttempt, held_attempt
from faults.processes import driver_of, java_of, kill, stopped
from faults.scene import Scene
from support.eventually import eventually

_COUNT = 4
_BACKLOG = 4000
"""Messages that make the first partition large enough to be cut."""
_SECONDS = 120.0

# Each is a piece of the statement that is *about* to be run when the session is held.
AFTER_READ = b"FOR KEY SHARE"
AFTER_ROWS = b"UPDATE workorders.kafka_virtual_partitions"
BEFORE_THE_LEDGER = b"FOR NO KEY UPDATE"


@contextmanager
def held_while_cut(
    scene: Scene, point: Breakpoint, variables: Mapping[str, str] | None = None
) -> Iterator[HeldAttempt]:
    """Plan a batch whose first partition is cut, and hold an attempt at it."""
    if scene.mode.grown:
        raise NotPossibleError("the ranges of a later round are too small to be cut")
    # A batch that grows joins its ranges at the end, which then have no virtual partitions any more.
    scene.define(virtual_partitions=_COUNT, linger=0)
    scene.produce(partitions=1, backlog=_BACKLOG)
    with held_attempt(scene, point, variables) as attempt:
        assert len(scene.trigger.virtual_partitions(attempt.batch_id)) == _COUNT
        yield attempt


def finished(scene: Scene, batch_id: int) -> dict[int, object]:
    """Return when each virtual partition was finished, by its first offset."""
    rows = scene.trigger.virtual_partitions(batch_id)
    return {row["start_offset"]: row["finished_at"] for row in rows if row["finished_at"] is not None}


def until_some_are_finished(scene: Scene, batch_id: int) -> dict[int, object]:
    """Wait until a virtual partition is finished, and return all that are."""
    found = eventually(
        lambda: finished(scene, batch_id), seconds=_SECONDS, what="a finished virtual partition next to the held one"
    )
    assert found
    return found


def finish(scene: Scene, batch_id: int, before: Mapping[int, object]) -> None:
    """Make the next attempt, which must finish the range and may not write again what was finished before."""
    scene.lifted()
    scene.start_ingest(batch_id).succeed()
    now = finished(scene, batch_id)
    assert len(now) == _COUNT
    assert before.items() <= now.items()
    assert all(scene.ranges(batch_id).values())
    scene.commit(batch_id)


@fault("worker killed while it writes a virtual partition")
def virtual_partition_killed(scene: Scene) -> None:
    with held_while_cut(scene, Breakpoint(EXECUTOR, AFTER_ROWS, passing=1)) as attempt:
        before = until_some_are_finished(scene, attempt.batch_id)
        kill(attempt.owner)
        scene.injected += 1
        attempt.point.release()
        # The driver makes the rest of the attempt without the worker that died.
        attempt.task.wait()
    finish(scene, attempt.batch_id, before)


@fault("JVM killed while it writes virtual partitions")
def virtual_partitions_jvm_killed(scene: Scene) -> None:
    with held_while_cut(scene, Breakpoint(EXECUTOR, AFTER_ROWS, passing=1)) as attempt:
        until_some_are_finished(scene, attempt.batch_id)
        kill(java_of(attempt.task.pid))
        scene.injected += 1
    attempt.task.fail()
    finish(scene, attempt.batch_id, finished(scene, attempt.batch_id))


@fault("driver killed while virtual partitions are written")
def virtual_partitions_driver_killed(scene: Scene) -> None:
    with held_while_cut(scene, Breakpoint(EXECUTOR, AFTER_ROWS, passing=1)) as attempt:
        until_some_are_finished(scene, attempt.batch_id)
        kill(driver_of(attempt.task.pid))
        scene.injected += 1
    attempt.task.fail()
    finish(scene, attempt.batch_id, finished(scene, attempt.batch_id))


@fault("JVM killed between a virtual partition's COMMIT and the ledger's move", short=True)
def virtual_partitions_killed_before_the_ledger(scene: Scene) -> None:
    with held_while_cut(scene, Breakpoint(EXECUTOR, BEFORE_THE_LEDGER)) as attempt:
        before = until_some_are_finished(scene, attempt.batch_id)
        kill(java_of(attempt.task.pid))
        scene.injected += 1
    attempt.task.fail()
    finish(scene, attempt.batch_id, before)


@fault("paused virtual partition wakes after a newer attempt is done")
def virtual_partition_paused_beyond_a_newer_attempt(scene: Scene) -> None:
    with held_while_cut(scene, Breakpoint(EXECUTOR, AFTER_READ)) as older:
        with stopped(older.owner):
            finish(scene, older.batch_id, {})
            scene.injected += 1
            older.point.release()
        older.task.fail("fenced")


@fault("Spark Connect server killed while virtual partitions are written")
def virtual_partitions_server_killed(scene: Scene) -> None:
    variables = scene.on_server()
    with held_while_cut(scene, Breakpoint(EXECUTOR, AFTER_ROWS, passing=1), variables) as attempt:
        until_some_are_finished(scene, attempt.batch_id)
        scene.site.stack.spark_connect.process.kill()
        scene.injected += 1
    attempt.task.fail()
    finish(scene, attempt.batch_id, finished(scene, attempt.batch_id))
