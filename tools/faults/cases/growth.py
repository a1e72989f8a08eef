"""Faults while a batch grows: its attempt adds ranges under a lease, and the listener leaves free partitions to it."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from faults.breakpoints import AFTER_READ, BEFORE_COMMIT, DRIVER, EXECUTOR, PLANNER, RECORDS_A_RANGE, Breakpoint
from faults.catalogue import fault
from faults.database import until_waiting_for_a_lock
from faults.holding import HeldAttempt, held, held_attempt
from faults.processes import kill, stopped
from faults.role import GROWS_ON
from faults.scene import Scene
from local_stack.waiting import wait_until
from support.eventually import eventually
from workorders.kafka.ledger.batches import LEASE_SECONDS

_PLANNING_SECONDS = 120.0
"""How long planning may take on a busy machine, in addition to the lease."""
_ENDED_SECONDS = 60.0
"""How long an attempt takes at most to notice a change while messages arrive; less than its time slice."""
_GROWS_ON = {GROWS_ON: "1"}
"""Variables of an attempt whose lease nobody closes."""
_CHANGED = 1234
_DEFINITION = "SELECT definition ->> 'max_messages' FROM workorders.triggers WHERE name = %(name)s"
_LEASE = "SELECT open_until > clock_timestamp() FROM workorders.kafka_batches WHERE id = %(batch_id)s"
_RENEW = """
UPDATE workorders.kafka_batches SET open_until = clock_timestamp() + %(seconds)s * interval '1 second'
WHERE id = %(batch_id)s
"""


def _recording(*, lose_answer: bool = False) -> Breakpoint:
    """Return the point at which an attempt records ranges, by which its batch grows."""
    return Breakpoint(DRIVER, BEFORE_COMMIT, RECORDS_A_RANGE, lose_answer=lose_answer)


def _has_lease(scene: Scene, batch_id: int) -> bool:
    return scene.site.admin(_LEASE, {"batch_id": batch_id}) == [(True,)]


@contextmanager
def _held_while_it_reads(scene: Scene) -> Iterator[HeldAttempt]:
    """Hold an attempt when the batch has grown, a worker has read, and the other ranges of the round are finished."""
    with held_attempt(scene, Breakpoint(EXECUTOR, AFTER_READ), _GROWS_ON, grown=True) as attempt:
        assert wait_until(lambda: len(_unfinished(scene, attempt.batch_id)) == 1, seconds=_ENDED_SECONDS)
        yield attempt


def _frozen(attempt: HeldAttempt) -> AbstractContextManager[None]:
    """Stop all processes of an attempt."""
    return stopped(attempt.task.process, *attempt.task.process.children(recursive=True))


def _until_planned(scene: Scene, growing: int) -> int:
    """Plan until the listener no longer leaves the free partitions to the batch that grows; return the new batch."""

    def planned() -> int | None:
        waiting = scene.plan()
        assert not waiting or not _has_lease(scene, growing), "the listener took partitions of a batch that has a lease"
        return waiting[-1] if waiting else None

    batch_id = eventually(planned, seconds=LEASE_SECONDS + _PLANNING_SECONDS, what="a batch of the listener")
    assert batch_id is not None
    return batch_id


def _unfinished(scene: Scene, batch_id: int) -> set[int]:
    return {partition for partition, finished in scene.ranges(batch_id).items() if not finished}


def _require_one_range_at_a_time(scene: Scene) -> None:
    """Require that the ranges of each partition follow one another, and that one of them at most is unfinished.

    Raises:
        AssertionError: they do not.
    """
    ends: dict[int, int] = {}
    unfinished: list[int] = []
    for row in sorted(scene.trigger.ranges(), key=lambda row: row["start_offset"]):
        assert row["start_offset"] >= ends.get(row["partition"], 0), row
        ends[row["partition"]] = row["end_offset"]
        unfinished += [row["partition"]] * (row["finished_at"] is None)
    assert len(set(unfinished)) == len(unfinished), unfinished


def _end_growth(scene: Scene, attempt: HeldAttempt) -> None:
    """Let an attempt end well when no message arrives any more."""
    scene.lifted()
    scene.stop_producing()
    attempt.task.succeed()
    scene.commit(attempt.batch_id)


@fault("attempt stopped while the lease of its growing batch is valid")
def growth_stopped(scene: Scene) -> None:
    with _held_while_it_reads(scene) as older:
        with _frozen(older):
            scene.site.admin(_RENEW, {"batch_id": older.batch_id, "seconds": LEASE_SECONDS})
            newer = _until_planned(scene, older.batch_id)
            assert not _unfinished(scene, older.batch_id) & scene.ranges(newer).keys()
            assert scene.finish(newer)
            scene.injected += 1
        older.point.release()
        _end_growth(scene, older)


@fault("attempt killed between the record of a range and its read", short=True)
def growth_killed_after_it_recorded(scene: Scene) -> None:
    with held_attempt(scene, _recording(lose_answer=True)) as attempt:
        kill(attempt.owner)
        scene.injected += 1
    scene.lifted()
    attempt.task.fail()
    assert _unfinished(scene, attempt.batch_id), "no range was recorded"
    assert not _unfinished(scene, attempt.batch_id) & {
        partition for batch_id in scene.plan() for partition in scene.ranges(batch_id)
    }
    scene.start_ingest(attempt.batch_id).succeed()
    scene.commit(attempt.batch_id)


@fault("attempt records a range, and gets no answer to its COMMIT")
def growth_without_answer(scene: Scene) -> None:
    with held_attempt(scene, _recording(lose_answer=True)) as attempt:
        scene.injected += 1
    scene.lifted()
    attempt.task.fail()
    assert _unfinished(scene, attempt.batch_id), "no range was recorded"


@fault("listener plans while a growing batch records a range")
def growth_before_the_planner(scene: Scene) -> None:
    with held_attempt(scene, _recording(), _GROWS_ON) as attempt:
        plan = scene.start_plan()
        until_waiting_for_a_lock(scene.site, PLANNER)
        scene.injected += 1
        attempt.point.release()
        plan.succeed()
        _require_one_range_at_a_time(scene)
        _end_growth(scene, attempt)


@fault("growing batch wakes after its lease, while the listener plans", short=True)
def growth_after_the_planner(scene: Scene) -> None:
    planning = Breakpoint(PLANNER, BEFORE_COMMIT, b"INSERT INTO workorders.kafka_batches")
    with _held_while_it_reads(scene) as older:
        with ExitStack() as listener:
            with _frozen(older):
                assert wait_until(lambda: not _has_lease(scene, older.batch_id), seconds=2 * LEASE_SECONDS)
                plan = listener.enter_context(held(scene, planning, scene.start_plan))
            older.point.release()
            until_waiting_for_a_lock(scene.site, DRIVER)
            scene.injected += 1
        newer = plan.task.answer()["planned"]
        assert newer is not None
        _require_one_range_at_a_time(scene)
        _end_growth(scene, older)


@fault("trigger's file changed while its batch grows")
def growth_of_a_changed_trigger(scene: Scene) -> None:
    with _held_while_it_reads(scene) as attempt:
        scene.define(max_messages=_CHANGED)
        scene.plan()
        scene.injected += 1
        attempt.point.release()
        scene.lifted()
        assert attempt.task.wait(_ENDED_SECONDS) == 0, attempt.task.output()[-3000:]
    assert scene.site.admin(_DEFINITION, {"name": scene.name}) == [(str(_CHANGED),)], "an older definition came back"
    scene.commit(attempt.batch_id)
