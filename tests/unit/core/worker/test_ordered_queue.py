"""Which claimed runs may begin."""

from uuid import UUID

from workorders.core.runs.claiming import ClaimedRun
from workorders.core.worker.ordered_queue import OrderedQueue


def run(number: int, ordering_key: int | None = None) -> ClaimedRun:
    """Return a claimed run."""
    id_ = UUID(int=number)
    return ClaimedRun(id_, id_, 1, ordering_key, "trigger", None, None, b"{}", b"{}")


def numbers(runs: list[ClaimedRun]) -> list[int]:
    """Return the numbers of runs."""
    return [run.run_id.int for run in runs]


def queue(*runs: ClaimedRun) -> OrderedQueue:
    """Return a queue of some runs."""
    made = OrderedQueue()
    made.put(runs)
    return made


def take(queue: OrderedQueue, limit: int = 10) -> list[ClaimedRun]:
    """Take some of the runs that may begin."""
    return [queue.take() for _ in range(min(limit, queue.ready))]


def test_the_first_of_each_ordering_key_may_begin_and_all_without_an_ordering_key() -> None:
    waiting = queue(run(1, 7), run(2, 7), run(3), run(4, 8), run(5))
    assert waiting.ready == 4
    assert numbers(take(waiting)) == [1, 3, 4, 5]
    assert (len(waiting), waiting.ready) == (1, 0)
    assert numbers(list(waiting)) == [2]


def test_the_next_of_an_ordering_key_begins_once_the_ordering_key_is_free() -> None:
    waiting = queue(run(1, 7), run(2, 7), run(3, 7))
    (first,) = take(waiting)
    assert take(waiting) == []
    waiting.free(first.ordering_key)
    assert numbers(take(waiting)) == [2]
    waiting.put([run(4, 7)])
    assert take(waiting) == []


def test_a_run_that_was_put_back_is_the_next_one_and_its_ordering_key_is_still_its_own() -> None:
    waiting = queue(run(1, 7), run(2, 7), run(3))
    (first,) = take(waiting, 1)
    waiting.put_back(first)
    assert numbers(take(waiting)) == [1, 3]


def test_an_ordering_key_that_is_at_work_stays_so_when_what_waits_is_removed() -> None:
    waiting = queue(run(1, 7), run(2, 7), run(3, 7))
    take(waiting, 1)
    waiting.remove(lambda run: run.run_id.int == 2)
    assert take(waiting, 1) == []
    assert numbers(waiting.remove()) == [3]
    waiting.put([run(4, 7)])
    assert take(waiting, 1) == []
    waiting.free(7)
    assert numbers(take(waiting, 1)) == [4]


def test_what_is_removed_never_begins() -> None:
    waiting = queue(run(1, 7), run(2, 7), run(3, 8))
    waiting.remove(lambda run: run.run_id.int == 1)
    assert numbers(take(waiting, 1)) == [3]
    assert numbers(waiting.remove()) == [2]
    assert take(waiting, 1) == []
