"""Faults of the driver, of its JVM, of the task that started it, and of the commit that follows."""

from faults.breakpoints import AFTER_READ, AFTER_ROWS, COMMITTER, DRIVER, EXECUTOR, Breakpoint
from faults.catalogue import fault
from faults.database import until_waiting_for_a_lock
from faults.processes import driver_of, java_of, kill, owner_of, pause, stopped, until_ended
from faults.scene import Scene

_LOADS_THE_BATCH = b"FROM workorders.kafka_batches"
_READS_THE_LEDGER = b"FROM workorders.kafka_ledger"


@fault("driver killed while a worker writes")
def driver_killed(scene: Scene) -> None:
    batch_id = scene.planned()
    with scene.site.postgres.breakpoint(Breakpoint(EXECUTOR, AFTER_ROWS)) as point:
        attempt = scene.start_ingest(batch_id)
        point.wait()
        kill(driver_of(attempt.pid))
        scene.injected += 1
    scene.lifted()
    attempt.fail()


@fault("JVM killed while a worker writes", short=True)
def jvm_killed(scene: Scene) -> None:
    batch_id = scene.planned()
    with scene.site.postgres.breakpoint(Breakpoint(EXECUTOR, AFTER_ROWS)) as point:
        attempt = scene.start_ingest(batch_id)
        point.wait()
        kill(java_of(attempt.pid))
        scene.injected += 1
    scene.lifted()
    attempt.fail()


@fault("JVM stopped and continued while a worker writes")
def jvm_stopped(scene: Scene) -> None:
    batch_id = scene.planned()
    with scene.site.postgres.breakpoint(Breakpoint(EXECUTOR, AFTER_ROWS)) as point:
        attempt = scene.start_ingest(batch_id)
        point.wait()
        with stopped(java_of(attempt.pid)):
            point.release()
            scene.injected += 1
            pause(scene.random.uniform(0.5, 3))
        scene.lifted()
        attempt.succeed()
    scene.commit(batch_id)


@fault("JVM killed after all COMMITs, before it said so")
def jvm_killed_before_it_settled(scene: Scene) -> None:
    batch_id = scene.planned()
    # The driver loads the batch when it begins, and again when all is done.
    with scene.site.postgres.breakpoint(Breakpoint(DRIVER, _LOADS_THE_BATCH, passing=1)) as point:
        attempt = scene.start_ingest(batch_id)
        point.wait()
        assert all(scene.ranges(batch_id).values())
        kill(java_of(attempt.pid))
        scene.injected += 1
    scene.lifted()
    attempt.fail()


@fault("task killed, its JVM lives on beside a newer attempt")
def task_killed_and_its_jvm_lives_on(scene: Scene) -> None:
    batch_id = scene.planned()
    with scene.site.postgres.breakpoint(Breakpoint(EXECUTOR, AFTER_READ)) as point:
        older = scene.start_ingest(batch_id)
        point.wait()
        java = java_of(older.pid)
        kill(older.process)
        scene.injected += 1
        scene.start_ingest(batch_id).succeed()
    scene.lifted()
    until_ended(java)
    assert "fenced" in older.output(), older.output()[-3000:]
    scene.commit(batch_id)


@fault("the same batch three times at once")
def three_attempts_at_once(scene: Scene) -> None:
    batch_id = scene.planned()
    with scene.site.postgres.breakpoint(Breakpoint(EXECUTOR, AFTER_READ)) as point:
        attempts = [scene.start_ingest(batch_id) for _ in range(3)]
        point.wait()
        assert all(attempt.running for attempt in attempts), "one had ended before the others wrote"
        scene.injected += len(attempts)
    scene.lifted()
    for attempt in attempts:
        attempt.wait()
    assert all(scene.ranges(batch_id).values())
    scene.commit(batch_id)


@fault("commit of the group killed before it commits")
def commit_killed(scene: Scene) -> None:
    batch_id = scene.planned()
    scene.start_ingest(batch_id).succeed()
    with scene.site.postgres.breakpoint(Breakpoint(COMMITTER, _READS_THE_LEDGER)) as point:
        task = scene.start_commit(batch_id)
        kill(owner_of(point.wait().client_port))
        scene.injected += 1
    task.fail()
    assert scene.trigger.group_offsets() == {}


@fault("two commits of the group, the older one paused")
def commit_paused_beside_a_newer_one(scene: Scene) -> None:
    first = scene.planned()
    scene.start_ingest(first).succeed()
    with scene.site.postgres.breakpoint(Breakpoint(COMMITTER, _READS_THE_LEDGER)) as point:
        older = scene.start_commit(first)
        with stopped(owner_of(point.wait().client_port)):
            second = scene.planned()
            scene.start_ingest(second).succeed()
            newer = scene.start_commit(second)
            until_waiting_for_a_lock(scene.site, "workorders commit")
            scene.injected += 1
            point.release()
        scene.lifted()
        for task in (older, newer):
            task.succeed()
    assert scene.trigger.group_offsets() == scene.next_offsets()
    scene.unfinished.clear()
