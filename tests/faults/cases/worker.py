"""Faults of the executor's Python worker."""

from faults.breakpoints import AFTER_READ, AFTER_ROWS, BEFORE_COMMIT, EXECUTOR, Breakpoint
from faults.catalogue import fault
from faults.database import until_waiting_for_a_lock
from faults.processes import kill, owner_of, pause, stopped
from faults.scene import Scene

# Long enough for a second attempt to come to the lock on a busy machine, and within its lock timeout of 30 s.
_IDLE_SECONDS = 20


def _kill_at(scene: Scene, point: Breakpoint) -> None:
    """Kill the first worker that comes to a breakpoint, and let the attempt end as it may."""
    batch_id = scene.planned()
    with scene.site.postgres.breakpoint(point):
        attempt = scene.start_ingest(batch_id)
        kill(owner_of(point.wait().client_port))
        scene.injected += 1
        point.release()
        scene.lifted()
        attempt.wait()


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
    batch_id = scene.planned()
    with scene.site.postgres.breakpoint(Breakpoint(EXECUTOR, BEFORE_COMMIT, lose_answer=True)) as point:
        attempt = scene.start_ingest(batch_id)
        point.wait()
        scene.injected += 1
        point.release()
        scene.lifted()
        # The driver asks the ledger, which knows that the COMMIT happened.
        attempt.succeed()
    assert all(scene.ranges(batch_id).values())
    scene.commit(batch_id)


@fault("worker stopped and continued after its rows")
def worker_stopped(scene: Scene) -> None:
    batch_id = scene.planned()
    with scene.site.postgres.breakpoint(Breakpoint(EXECUTOR, AFTER_ROWS)) as point:
        attempt = scene.start_ingest(batch_id)
        with stopped(owner_of(point.wait().client_port)):
            point.release()
            scene.injected += 1
            pause(scene.random.uniform(0.5, 3))
        scene.lifted()
        attempt.succeed()
    scene.commit(batch_id)


@fault("paused attempt wakes after a newer one is done", short=True)
def worker_paused_beyond_a_newer_attempt(scene: Scene) -> None:
    batch_id = scene.planned()
    with scene.site.postgres.breakpoint(Breakpoint(EXECUTOR, AFTER_READ)) as point:
        older = scene.start_ingest(batch_id)
        with stopped(owner_of(point.wait().client_port)):
            scene.start_ingest(batch_id).succeed()
            assert all(scene.ranges(batch_id).values())
            scene.injected += 1
            point.release()
        scene.lifted()
        older.fail("fenced")
    scene.commit(batch_id)


def _idle_at_most(scene: Scene, seconds: int) -> dict[str, str]:
    """Return variables under which Postgres ends a session that idles in a transaction, sooner than by default."""
    options = f"-c idle_in_transaction_session_timeout={seconds}s"
    return {"WORKORDERS_DATABASE_URL": scene.site.database_url(options=options)}


@fault("attempt paused with a partition's lock in its hands")
def worker_paused_with_a_lock(scene: Scene) -> None:
    batch_id = scene.planned()
    with scene.site.postgres.breakpoint(Breakpoint(EXECUTOR, AFTER_ROWS)) as point:
        older = scene.start_ingest(batch_id, _idle_at_most(scene, _IDLE_SECONDS))
        with stopped(owner_of(point.wait().client_port)):
            newer = scene.start_ingest(batch_id)
            until_waiting_for_a_lock(scene.site, "workorders check")
            scene.injected += 1
            # Postgres ends the session that idles in its transaction, and the newer attempt goes on.
            newer.succeed()
            point.release()
        scene.lifted()
        older.wait()
    scene.commit(batch_id)
