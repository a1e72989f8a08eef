"""Faults of the driver, of its JVM, of the task that started it, and of the commit that follows."""

from faults.breakpoints import (
    AFTER_READ,
    AFTER_ROWS,
    COMMITTER,
    DRIVER,
    EXECUTOR,
    READS_THE_LEDGER,
    RENEWS_THE_LEASE,
    Breakpoint,
)
from faults.catalogue import fault
from faults.database import until_waiting_for_a_lock
from faults.holding import held, held_attempt
from faults.processes import driver_of, java_of, kill, pause, stopped, until_ended
from faults.scene import Scene


@fault("driver killed while a worker writes")
def driver_killed(scene: Scene) -> None:
    with held_attempt(scene, Breakpoint(EXECUTOR, AFTER_ROWS)) as attempt:
        kill(driver_of(attempt.task.pid))
        scene.injected += 1
    scene.lifted()
    attempt.task.fail()


@fault("JVM killed while a worker writes", short=True)
def jvm_killed(scene: Scene) -> None:
    with held_attempt(scene, Breakpoint(EXECUTOR, AFTER_ROWS)) as attempt:
        kill(java_of(attempt.task.pid))
        scene.injected += 1
    scene.lifted()
    attempt.task.fail()


@fault("JVM stopped and continued while a worker writes")
def jvm_stopped(scene: Scene) -> None:
    with held_attempt(scene, Breakpoint(EXECUTOR, AFTER_ROWS)) as attempt:
        with stopped(java_of(attempt.task.pid)):
            attempt.point.release()
            scene.injected += 1
            pause(scene.random.uniform(0.5, 3))
        scene.lifted()
        attempt.task.succeed()
    scene.commit(attempt.batch_id)


@fault("JVM killed after all COMMITs, before it reported them")
def jvm_killed_before_it_settled(scene: Scene) -> None:
    # The driver renews the lease when all is done.
    with held_attempt(scene, Breakpoint(DRIVER, RENEWS_THE_LEASE)) as attempt:
        assert all(scene.ranges(attempt.batch_id).values())
        kill(java_of(attempt.task.pid))
        scene.injected += 1
    scene.lifted()
    attempt.task.fail()


@fault("task killed, its JVM lives on next to a newer attempt")
def task_killed_and_its_jvm_lives_on(scene: Scene) -> None:
    with held_attempt(scene, Breakpoint(EXECUTOR, AFTER_READ)) as older:
        java = java_of(older.task.pid)
        kill(older.task.process)
        scene.injected += 1
        scene.start_ingest(older.batch_id).succeed()
    scene.lifted()
    until_ended(java)
    assert "fenced" in older.task.output(), older.task.output()[-3000:]
    scene.commit(older.batch_id)


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
    with held(scene, Breakpoint(COMMITTER, READS_THE_LEDGER), lambda: scene.start_commit(batch_id)) as commit:
        kill(commit.owner)
        scene.injected += 1
    commit.task.fail()
    assert scene.trigger.group_offsets() == {}


@fault("two commits of the group, the older one paused")
def commit_paused_next_to_a_newer_one(scene: Scene) -> None:
    first = scene.planned()
    scene.start_ingest(first).succeed()
    with held(scene, Breakpoint(COMMITTER, READS_THE_LEDGER), lambda: scene.start_commit(first)) as older:
        with stopped(older.owner):
            second = scene.planned()
            scene.start_ingest(second).succeed()
            newer = scene.start_commit(second)
            until_waiting_for_a_lock(scene.site, "workorders commit")
            scene.injected += 1
            older.point.release()
        scene.lifted()
        for task in (older.task, newer):
            task.succeed()
    assert scene.trigger.group_offsets() == scene.next_offsets()
    scene.unfinished.clear()
