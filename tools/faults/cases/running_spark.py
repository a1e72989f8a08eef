"""Faults of a Spark Connect server, of the connection to it, and of the task that uses it."""

from collections.abc import Iterator
from contextlib import contextmanager

from faults.breakpoints import AFTER_READ, AFTER_ROWS, BEFORE_COMMIT, EXECUTOR, Breakpoint
from faults.catalogue import fault
from faults.holding import held_attempt
from faults.processes import kill
from faults.proxy import Proxy
from faults.scene import Scene

LOST = "WO-SPARK-SERVER"


@contextmanager
def proxied(scene: Scene) -> Iterator[Proxy]:
    """Put a proxy before the server."""
    scene.site.stack.start_spark_connect()
    proxy = Proxy(scene.site.stack.spark_connect.port)
    try:
        yield proxy
    finally:
        proxy.close()


@fault("Spark Connect server killed while a worker writes", short=True)
def connect_server_killed(scene: Scene) -> None:
    with held_attempt(scene, Breakpoint(EXECUTOR, AFTER_ROWS), scene.on_server()) as attempt:
        scene.site.stack.spark_connect.process.kill()
        scene.injected += 1
    scene.lifted()
    attempt.task.fail(LOST)


@fault("Spark Connect server killed after a COMMIT, before it said so")
def connect_server_killed_after_a_commit(scene: Scene) -> None:
    with held_attempt(scene, Breakpoint(EXECUTOR, BEFORE_COMMIT, lose_answer=True), scene.on_server()) as attempt:
        scene.site.stack.spark_connect.process.kill()
        scene.injected += 1
    scene.lifted()
    attempt.task.wait()  # the other partitions may have been committed as well
    assert any(scene.ranges(attempt.batch_id).values())


@fault("connection to the Spark Connect server cut while a worker writes", short=True)
def connect_connection_cut(scene: Scene) -> None:
    with proxied(scene) as proxy:
        with held_attempt(scene, Breakpoint(EXECUTOR, AFTER_ROWS), scene.on_server(proxy.port)) as attempt:
            assert proxy.cut() > 0
            scene.injected += 1
        scene.lifted()
        attempt.task.succeed()
    scene.commit(attempt.batch_id)


@fault("Spark Connect server unreachable while a worker writes, whose query lives on")
def connect_server_unreachable(scene: Scene) -> None:
    with (
        proxied(scene) as proxy,
        held_attempt(scene, Breakpoint(EXECUTOR, AFTER_READ), scene.on_server(proxy.port)) as attempt,
    ):
        proxy.refuse()
        assert proxy.cut() > 0
        scene.injected += 1
        attempt.task.fail(LOST)
    scene.lifted()


@fault("task killed, its query on the Spark Connect server lives on beside a newer attempt")
def connect_task_killed(scene: Scene) -> None:
    variables = scene.on_server()
    with held_attempt(scene, Breakpoint(EXECUTOR, AFTER_READ), variables) as older:
        for client in older.task.process.children(recursive=True):
            kill(client)
        scene.injected += 1
        scene.start_ingest(older.batch_id, variables).succeed()
    scene.lifted()
    scene.commit(older.batch_id)
