"""Faults of Postgres, and of the way to it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from faults.breakpoints import AFTER_READ, AFTER_ROWS, DRIVER, EXECUTOR, LOADS_THE_BATCH, Breakpoint
from faults.catalogue import fault
from faults.database import backend_of, locked_ledger, until_answering, until_waiting_for_a_lock
from faults.disk import small_disk
from faults.holding import HeldAttempt, held_attempt
from faults.machine import gone_behind
from faults.processes import kill, pause
from faults.scene import Scene

_ROLE = "ALTER ROLE workorders "
# Keepalives notice it after a minute; then the attempt tries to read what was committed, which fails as well.
_GIVEN_UP_SECONDS = 150.0


@contextmanager
def _during_rows(scene: Scene) -> Iterator[HeldAttempt]:
    """Hold a worker that has written its rows; it continues at the end."""
    with held_attempt(scene, Breakpoint(EXECUTOR, AFTER_ROWS)) as attempt:
        yield attempt
        scene.injected += 1


@contextmanager
def _with_role(scene: Scene, setting: str, undo: str) -> Iterator[None]:
    scene.site.admin(_ROLE + setting)
    try:
        yield
    finally:
        scene.site.admin(_ROLE + undo)


@fault("Postgres killed during a write of rows, and restarted", short=True)
def postgres_killed(scene: Scene) -> None:
    postgres = scene.site.stack.postgres
    with _during_rows(scene) as attempt:
        postgres.kill()
        assert postgres.process.exit_code == -9
    attempt.task.wait()
    postgres.start()
    scene.lifted()


@fault("Postgres stopped during a write of rows, and restarted meanwhile")
def postgres_restarted(scene: Scene) -> None:
    postgres = scene.site.stack.postgres
    with _during_rows(scene) as attempt:
        postgres.stop()
        assert not postgres.process.running
        postgres.start()
    scene.lifted()
    attempt.task.wait()


@fault("Postgres down while planning")
def postgres_down_while_planning(scene: Scene) -> None:
    postgres = scene.site.stack.postgres
    postgres.kill()
    scene.start_plan().fail("server closed the connection|Connection refused|connection failed")
    scene.injected += 1
    postgres.start()
    scene.lifted()


@fault("a session's backend ended by an administrator")
def backend_terminated(scene: Scene) -> None:
    with _during_rows(scene) as attempt:
        pid = backend_of(scene.site, attempt.point.wait()).pid
        assert scene.site.admin("SELECT pg_terminate_backend(%(pid)s, 10000)", {"pid": pid}) == [(True,)]
    scene.lifted()
    attempt.task.wait()


@fault("a session's backend killed, and Postgres recovers by itself")
def backend_killed(scene: Scene) -> None:
    with _during_rows(scene) as attempt:
        kill(backend_of(scene.site, attempt.point.wait()))
    until_answering(scene.site)
    scene.lifted()
    attempt.task.wait()


@fault("Postgres out of connections")
def postgres_out_of_connections(scene: Scene) -> None:
    with (
        held_attempt(scene, Breakpoint(DRIVER, LOADS_THE_BATCH)) as attempt,
        _with_role(scene, "CONNECTION LIMIT 0", "CONNECTION LIMIT -1"),
    ):
        attempt.point.release()
        attempt.task.fail("too many connections")
        scene.start_plan().fail("too many connections")
        scene.injected += 2
    assert not any(scene.ranges(attempt.batch_id).values())


@fault("Postgres read only")
def postgres_read_only(scene: Scene) -> None:
    setting = "default_transaction_read_only"
    with (
        held_attempt(scene, Breakpoint(DRIVER, LOADS_THE_BATCH)) as attempt,
        _with_role(scene, f"SET {setting} = on", f"RESET {setting}"),
    ):
        attempt.point.release()
        attempt.task.fail("read-only transaction")
        scene.start_ingest(attempt.batch_id).fail("read-only transaction")
        scene.injected += 2
    assert not any(scene.ranges(attempt.batch_id).values())


@fault("Postgres out of disk")
def postgres_out_of_disk(scene: Scene) -> None:
    with small_disk(scene.site) as disk:
        batch_id = scene.planned()
        disk.fill()
        attempt = scene.start_ingest(batch_id)
        output = attempt.fail("No space left on device")
        assert "nothing was committed there" in output
        assert not any(scene.ranges(batch_id).values())
        scene.injected += 1
        disk.free()
        scene.lifted()
        assert scene.finish(batch_id)


@fault("Postgres slow")
def postgres_slow(scene: Scene) -> None:
    batch_id = scene.planned()
    with scene.site.postgres.slow(scene.random.uniform(0.05, 0.15)):
        assert scene.finish(batch_id)
    assert scene.site.postgres.delayed
    scene.injected += scene.site.postgres.delayed
    scene.lifted()


@fault("Postgres refuses, and cuts every connection during a write of rows")
def postgres_unreachable(scene: Scene) -> None:
    with _during_rows(scene) as attempt, scene.site.postgres.unreachable() as cut:
        assert cut
        attempt.task.fail("refused|closed the connection")
    scene.lifted()


@fault("Postgres silent for a while during a write of rows")
def postgres_silent(scene: Scene) -> None:
    with _during_rows(scene) as attempt, scene.site.postgres.stalled():
        attempt.point.release()
        pause(scene.random.uniform(1, 5))
        assert attempt.task.running
    scene.lifted()
    attempt.task.succeed()


@fault("Postgres silent during a write of rows, then the connections are gone")
def postgres_silent_then_gone(scene: Scene) -> None:
    with _during_rows(scene) as attempt, scene.site.postgres.stalled():
        attempt.point.release()
        pause(scene.random.uniform(0.5, 2))
        assert scene.site.postgres.cut()
    scene.lifted()
    attempt.task.wait()


@fault("machine of Postgres gone during a write of rows")
def postgres_machine_gone(scene: Scene) -> None:
    with _during_rows(scene) as attempt, gone_behind(scene.site.postgres):
        begun = time.monotonic()
        # The proxy, which is between, closes the connection that a growing batch waits at.
        attempt.task.fail("timed out|timeout expired|server closed the connection")
        assert time.monotonic() - begun < _GIVEN_UP_SECONDS
    scene.lifted()


@fault("the ledger's row locked by another session")
def ledger_locked(scene: Scene) -> None:
    with (
        held_attempt(scene, Breakpoint(EXECUTOR, AFTER_READ)) as attempt,
        locked_ledger(scene.site, scene.name),
    ):
        attempt.point.release()
        until_waiting_for_a_lock(scene.site, "workorders batch")
        scene.injected += 1
        pause(scene.random.uniform(0.5, 3))
    scene.lifted()
    attempt.task.succeed()
