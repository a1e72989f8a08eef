"""Faults of the broker, and of the way to it."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from faults.breakpoints import (
    AFTER_READ,
    COMMITTER,
    DRIVER,
    EXECUTOR,
    LOADS_THE_BATCH,
    READS_THE_LEDGER,
    Breakpoint,
)
from faults.catalogue import fault
from faults.holding import HeldAttempt, held, held_attempt
from faults.processes import pause, stopped
from faults.scene import Scene

# More than the JVM fetches ahead of a worker that is held, so that the fault meets it while it reads.
_MUCH = 60_000


@contextmanager
def _during_reading(scene: Scene) -> Iterator[HeldAttempt]:
    """Hold a worker that has a part of its messages; it continues when released, or at the end."""
    scene.produce(backlog=_MUCH)
    with held_attempt(scene, Breakpoint(EXECUTOR, AFTER_READ)) as attempt:
        yield attempt
        scene.injected += 1


@fault("broker killed during reading, and restarted", short=True)
def broker_killed(scene: Scene) -> None:
    kafka = scene.site.stack.kafka
    with _during_reading(scene) as attempt:
        kafka.kill()
        assert kafka.process.exit_code == -signal.SIGKILL
    kafka.start()
    scene.lifted()
    attempt.task.wait()


@fault("broker restarted during reading")
def broker_restarted(scene: Scene) -> None:
    kafka = scene.site.stack.kafka
    with _during_reading(scene) as attempt:
        kafka.stop()
        assert not kafka.process.running
    kafka.start()
    scene.lifted()
    attempt.task.wait()


@fault("broker stopped and continued during reading")
def broker_paused(scene: Scene) -> None:
    with _during_reading(scene) as attempt, stopped(psutil.Process(scene.site.stack.kafka.process.pid)):
        attempt.point.release()
        pause(scene.random.uniform(1, 4))
    scene.lifted()
    attempt.task.wait()


@fault("broker down while planning and while checking")
def broker_down_while_planning(scene: Scene) -> None:
    kafka = scene.site.stack.kafka
    batch_id = scene.planned()
    kafka.kill()
    tasks = [scene.start_plan(), scene.start_ingest(batch_id)]
    for task in tasks:
        task.fail("did not answer")
        scene.injected += 1
    assert not any(scene.ranges(batch_id).values())
    kafka.start()
    scene.lifted()


@fault("broker unreachable for the driver")
def broker_unreachable(scene: Scene) -> None:
    with held_attempt(scene, Breakpoint(DRIVER, LOADS_THE_BATCH)) as attempt, scene.site.kafka.unreachable():
        attempt.point.release()
        attempt.task.fail("did not answer")
        scene.injected += 1
    scene.lifted()
    assert not any(scene.ranges(attempt.batch_id).values())


@fault("connections to the broker cut during reading")
def broker_connections_cut(scene: Scene) -> None:
    with _during_reading(scene) as attempt:
        assert scene.site.kafka.cut()
    scene.lifted()
    attempt.task.succeed()


@fault("broker silent for a while during reading")
def broker_silent(scene: Scene) -> None:
    with _during_reading(scene) as attempt, scene.site.kafka.stalled():
        attempt.point.release()
        pause(scene.random.uniform(1, 5))
        assert attempt.task.running
    scene.lifted()
    attempt.task.succeed()


@fault("broker slow")
def broker_slow(scene: Scene) -> None:
    batch_id = scene.planned()
    with scene.site.kafka.slow(scene.random.uniform(0.05, 0.15)):
        assert scene.finish(batch_id)
    assert scene.site.kafka.delayed
    scene.injected += scene.site.kafka.delayed
    scene.lifted()


@fault("commit of the group unanswered")
def commit_unanswered(scene: Scene) -> None:
    batch_id = scene.planned()
    scene.start_ingest(batch_id).succeed()
    point = Breakpoint(COMMITTER, READS_THE_LEDGER)
    with held(scene, point, lambda: scene.start_commit(batch_id)) as commit, scene.site.kafka.stalled():
        point.release()
        commit.task.fail("did not answer|refused the offsets")
        scene.injected += 1
    scene.lifted()
