"""Faults of the executor's Python worker."""

import time

from faults.breakpoints import AFTER_READ, AFTER_ROWS, BEFORE_COMMIT, EXECUTOR, Breakpoint
from faults.catalogue import NotPossibleError, fault
from faults.database import until_no_session_is_connected, until_waiting_for_a_lock
from faults.holding import held_attempt
from faults.machine import gone
from faults.processes import kill, pause, stopped
from faults.scene import Scene

# Long enough for a second attempt to come to the lock on a busy machine, and within its lock timeout of 30 s.
_IDLE_SECONDS = 20
# Keepalives find out after a minute; a session that idles in a transaction is ended after five.
_NOTICED_SECONDS = 90.0


def _kill_at(scene: Scene, point: Breakpoint) -> None:
    """Kill the first worker that comes to a breakpoint, and let the attempt end as it may."""
    with held_attempt(scene, point) as attempt:
        kill(attempt.owner)
        scene.injected += 1
        point.release()
        scene.lifted()
        attempt.task.wait()


@fault("worker killed after it has read")
def worker_killed_after_read(scene: Scene) -> None:
    _kill_at(scene, Breakpoint(EXECUTOR, AFTER_READ))


@fault("worker killed after its rows")
def worker_killed_after_rows(scene: Scene) -> None:
    _kill_at(scene, Breakpoint(EXECUTOR, AFTER_ROWS))


@fault("worker killed before COMMIT")
def worker_killed_before_commit(scene: Scene) -> None:
    _kill_at(scene, Breakpoint(EXECUTOR, BEFORE_COMMIT))


@fault("worker killed, COMMIT sent and no answer")
def worker_killed_in_commit(scene: Scene) -> None:
    _kill_at(scene, Breakpoint(EXECUTOR, BEFORE_COMMIT, lose_answer=True))


@fault("worker's COMMIT sent and no answer", short=True)
def worker_without_answer(scene: Scene) -> None:
    with held_attempt(scene, Breakpoint(EXECUTOR, BEFORE_COMMIT, lose_answer=True)) as attempt:
        scene.injected += 1
        attempt.point.release()
        scene.lifted()
        # The driver asks the ledger, which knows that the COMMIT happened.
        attempt.task.succeed()
    assert all(scene.ranges(attempt.batch_id).values())
    scene.commit(attempt.batch_id)


@fault("worker stopped and continued after its rows")
def worker_stopped(scene: Scene) -> None:
    with held_attempt(scene, Breakpoint(EXECUTOR, AFTER_ROWS)) as attempt:
        with stopped(attempt.owner):
            attempt.point.release()
            scene.injected += 1
            pause(scene.random.uniform(0.5, 3))
        scene.lifted()
        attempt.task.succeed()
    scene.commit(attempt.batch_id)


@fault("paused attempt wakes after a newer one is done", short=True)
def worker_paused_beyond_a_newer_attempt(scene: Scene) -> None:
    with held_attempt(scene, Breakpoint(EXECUTOR, AFTER_READ)) as older:
        with stopped(older.owner):
            scene.start_ingest(older.batch_id).succeed()
            assert all(scene.ranges(older.batch_id).values())
            scene.injected += 1
            older.point.release()
        scene.lifted()
        older.task.fail("fenced")
    scene.commit(older.batch_id)


def idle_at_most(scene: Scene, seconds: int) -> dict[str, str]:
    """Return variables under which Postgres ends a session that idles in a transaction, sooner than by default."""
    options = f"-c idle_in_transaction_session_timeout={seconds}s"
    return {"WORKORDERS_DATABASE_URL": scene.site.database_url(options=options)}


@fault("attempt paused with a partition's lock in its hands")
def worker_paused_with_a_lock(scene: Scene) -> None:
    variables = idle_at_most(scene, _IDLE_SECONDS)
    with held_attempt(scene, Breakpoint(EXECUTOR, AFTER_ROWS), variables) as older:
        with stopped(older.owner):
            newer = scene.start_ingest(older.batch_id)
            until_waiting_for_a_lock(scene.site, "workorders check")
            scene.injected += 1
            # Postgres ends the session that idles in its transaction, and the newer attempt continues.
            newer.succeed()
            older.point.release()
        scene.lifted()
        older.task.wait()
    scene.commit(older.batch_id)


@fault("machine of a task gone while it holds a partition's lock")
def worker_machine_gone(scene: Scene) -> None:
    if scene.mode.on_server:
        raise NotPossibleError("the lock is in the hands of the Spark Connect server, which is not the task's machine")
    with held_attempt(scene, Breakpoint(EXECUTOR, AFTER_ROWS)) as older:
        task = older.task.process
        with gone(scene.site, task, *task.children(recursive=True)):
            begun = time.monotonic()
            until_no_session_is_connected(scene.site, older.point.wait().application)
            assert time.monotonic() - begun < _NOTICED_SECONDS
            scene.injected += 1
            scene.start_ingest(older.batch_id).succeed()
            assert all(scene.ranges(older.batch_id).values())
        older.point.release()
        scene.lifted()
        older.task.wait()
    scene.commit(older.batch_id)
