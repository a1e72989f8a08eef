"""Faults at no named point: what is hit, and when, is drawn."""

from collections.abc import Callable

from faults.catalogue import fault
from faults.processes import find_java, kill, pause
from faults.scene import Scene
from faults.tasks import Task

_LATEST_SECONDS = 12.0
_LONGEST_SECONDS = 3.0


@fault("something killed at a random instant")
def killed_at_random(scene: Scene) -> None:
    for _ in range(scene.random.randint(1, 3)):
        scene.plan()
        for batch_id in list(scene.unfinished):
            attempt = scene.start_ingest(batch_id)
            pause(scene.random.uniform(0, _LATEST_SECONDS))
            scene.random.choice(_VICTIMS)(scene, attempt)
            scene.injected += 1
            pause(scene.random.uniform(0, _LONGEST_SECONDS))
            scene.site.heal()
            attempt.wait()
    scene.lifted()


def _kill_jvm(scene: Scene, attempt: Task) -> None:
    java = find_java(attempt.pid) if attempt.running else None
    if java is None:  # not yet, or no longer: then the next best
        _kill_postgres(scene, attempt)
    else:
        kill(java)


def _kill_postgres(scene: Scene, _: Task) -> None:
    scene.site.stack.postgres.kill()


def _kill_broker(scene: Scene, _: Task) -> None:
    scene.site.stack.kafka.kill()


def _cut_connections(scene: Scene, _: Task) -> None:
    scene.site.postgres.cut()
    scene.site.kafka.cut()


_VICTIMS: tuple[Callable[[Scene, Task], None], ...] = (
    _kill_jvm,
    _kill_jvm,
    _kill_postgres,
    _kill_broker,
    _cut_connections,
)
