"""Faults of a standalone Spark cluster: its executors are separate processes, and Spark starts lost tasks again."""

import json
import time
from collections.abc import Mapping

import psutil

from faults.breakpoints import AFTER_READ, AFTER_ROWS, BEFORE_COMMIT, EXECUTOR, Breakpoint
from faults.cases.worker import idle_at_most
from faults.catalogue import fault
from faults.database import until_waiting_for_a_lock
from faults.holding import held_attempt
from faults.machine import gone
from faults.processes import kill, stopped
from faults.role import ON_CLUSTER
from faults.scene import Scene

_IDLE_SECONDS = 20
# Spark's own limit is two to three minutes; ours is 50 s, and the other executor then takes some seconds.
_NOTICED_SECONDS = 90.0
# Postgres ends the transaction of a machine that is gone after a minute; a session that idles, after five.
_FREED_SECONDS = 150.0
# Of three tasks one is held, and a copy of it starts when the others are done.
_SPECULATIVE = {
    "spark.speculation": "true",
    "spark.speculation.interval": "500ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.3",
}


def on_cluster(scene: Scene, conf: Mapping[str, str] | None = None) -> dict[str, str]:
    """Start the cluster if it was not started; return the variables of an attempt that is submitted to it."""
    stack = scene.site.stack
    stack.start_spark_cluster()
    submitted = {"master": stack.spark_cluster.master, "conf": dict(conf or {})}
    return {**stack.spark_cluster.variables, ON_CLUSTER: json.dumps(submitted)}


def executor_of(worker: psutil.Process) -> psutil.Process:
    """Return the JVM of the executor that a Python worker belongs to."""
    return next(parent for parent in worker.parents() if parent.name() == "java")


@fault("executor of a cluster killed while it writes")
def executor_killed(scene: Scene) -> None:
    with held_attempt(scene, Breakpoint(EXECUTOR, AFTER_ROWS), on_cluster(scene)) as attempt:
        kill(executor_of(attempt.owner))
        scene.injected += 1
        attempt.point.release()  # the proxy now notices that its client is gone, as Postgres would
        scene.lifted()
        attempt.task.succeed()
    scene.commit(attempt.batch_id)


@fault("executor of a cluster killed after a COMMIT, before it said so")
def executor_killed_after_a_commit(scene: Scene) -> None:
    point = Breakpoint(EXECUTOR, BEFORE_COMMIT, lose_answer=True)
    with held_attempt(scene, point, on_cluster(scene)) as attempt:
        kill(executor_of(attempt.owner))
        scene.injected += 1
        attempt.point.release()  # the proxy now notices that its client is gone, as Postgres would
        scene.lifted()
        attempt.task.succeed()
    scene.commit(attempt.batch_id)


@fault("machine of a cluster silent before it writes")
def executor_silent(scene: Scene) -> None:
    # The kernel of a stopped process answers keepalives, unlike a machine that is gone.
    variables = {**on_cluster(scene), **idle_at_most(scene, _IDLE_SECONDS)}
    with held_attempt(scene, Breakpoint(EXECUTOR, AFTER_READ), variables) as attempt:
        executor = executor_of(attempt.owner)
        worker = executor.parent()
        assert worker is not None
        with stopped(worker, executor, *executor.children(recursive=True)):
            begun = time.monotonic()
            scene.injected += 1
            attempt.task.succeed()
            assert time.monotonic() - begun < _NOTICED_SECONDS
        scene.lifted()
    scene.commit(attempt.batch_id)


@fault("machine of a cluster gone while it holds a partition's lock")
def executor_machine_gone(scene: Scene) -> None:
    with held_attempt(scene, Breakpoint(EXECUTOR, AFTER_ROWS), on_cluster(scene)) as attempt:
        executor = executor_of(attempt.owner)
        worker = executor.parent()
        assert worker is not None
        with gone(scene.site, worker, executor, *executor.children(recursive=True)):
            begun = time.monotonic()
            scene.injected += 1
            attempt.task.succeed()
            assert time.monotonic() - begun < _FREED_SECONDS
        attempt.point.release()
        scene.lifted()
    scene.commit(attempt.batch_id)


@fault("two copies of a task on a cluster that speculates")
def speculation(scene: Scene) -> None:
    with held_attempt(scene, Breakpoint(EXECUTOR, AFTER_ROWS), on_cluster(scene, _SPECULATIVE)) as attempt:
        until_waiting_for_a_lock(scene.site, EXECUTOR)
        scene.injected += 1
        attempt.point.release()
        scene.lifted()
        attempt.task.succeed()
    scene.commit(attempt.batch_id)


@fault("master of a cluster killed and started again while an executor writes")
def master_restarted(scene: Scene) -> None:
    variables = on_cluster(scene)
    cluster = scene.site.stack.spark_cluster
    with held_attempt(scene, Breakpoint(EXECUTOR, AFTER_ROWS), variables) as attempt:
        cluster.master_process.kill()
        scene.injected += 1
        cluster.start_master()
        attempt.point.release()
        scene.lifted()
        attempt.task.succeed()
    scene.commit(attempt.batch_id)
    after = scene.planned()
    scene.start_ingest(after, variables).succeed()
    scene.commit(after)
