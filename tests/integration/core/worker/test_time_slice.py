"""A group whose turn ends: what it has in hand it finishes, and what it has not begun waits again."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from local_stack.stack import LocalStack
from local_stack.waiting import wait_until
from support.executing import Executing
from support.turns import ask
from workorders.core.postgres.connection import Connection
from workorders.core.worker import time_slice

pytestmark = pytest.mark.integration

Make = Callable[..., Executing]


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten looks a second."""
    monkeypatch.setattr(time_slice, "LOOK_SECONDS", 0.1)


class Clock:
    """The clock of turns, which is an hour later once something has happened: how long that takes does not matter."""

    def __init__(self) -> None:
        self._happened: Callable[[], bool] = lambda: False

    def late_when(self, happened: Callable[[], bool]) -> None:
        """Say what must happen before a turn has lasted long enough."""
        self._happened = happened

    def monotonic(self) -> float:
        """Return the seconds, as the module of the same name does."""
        return time.monotonic() + 3600 * self._happened()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Every turn of the test is given up as soon as the test says, and not before."""
    clock = Clock()
    monkeypatch.setattr(time_slice, "time", clock)
    return clock


@pytest.fixture
def make(stack: LocalStack, name: str) -> Make:
    """Makes workflows of this test."""
    return lambda role, **fields: Executing(stack.database_url, f"{name}-{role}", "note", **fields)


@pytest.fixture
def waiting(connection: Connection, make: Make) -> Executing:
    """A workflow that has waited for a worker for a while."""
    executing = make("waiting")
    executing.create([{}])
    connection.execute("DELETE FROM workorders.turns")
    ask(connection, executing.name, seconds_ago=60)
    return executing


def notes(file: Path, count: int, **fields: object) -> list[dict[str, object]]:
    return [{"file": str(file), "word": str(number), **fields} for number in range(count)]


def noted(file: Path) -> int:
    return len(file.read_text().split()) if file.exists() else 0


def test_it_ends_its_turn_for_another_workflow_and_begins_no_run_more(
    make: Make, waiting: Executing, clock: Clock, tmp_path: Path
) -> None:
    busy, file = make("busy"), tmp_path / "noted"
    busy.create(notes(file, 80, seconds=0.05))
    clock.late_when(lambda: noted(file) > 2)
    tally = busy.group(turn_seconds=600).work()
    assert 2 < tally.total < 80
    assert tally.states == {"success": tally.total}
    assert busy.states() == [("success", "success")] * tally.total + [
        ("pending", state) for _, state in busy.states()[tally.total :]
    ]
    assert any(f"workflow {waiting.name} waits for a worker" in line for line in busy.said)
    clock.late_when(lambda: False)
    busy.group(turn_seconds=600).work()
    assert file.read_text().split() == [str(number) for number in range(80)]


def test_a_group_that_shares_a_turn_which_was_given_up_ends_as_well_and_before_it_begins(
    make: Make, waiting: Executing, clock: Clock, tmp_path: Path
) -> None:
    busy, file = make("busy"), tmp_path / "noted"
    busy.create(notes(file, 40, seconds=0.1))
    clock.late_when(lambda: noted(file) > 2)
    first = busy.group(turn="a DAG run", turn_seconds=600).work()
    clock.late_when(lambda: False)
    assert busy.group(turn="a DAG run", turn_seconds=600).work().total == 0
    assert busy.group(turn="the next DAG run", turn_seconds=600).work().total == 40 - first.total


def test_short_runs_that_a_process_holds_come_back_when_a_long_one_is_before_them(
    make: Make, waiting: Executing, clock: Clock, tmp_path: Path
) -> None:
    busy, file = make("busy"), tmp_path / "noted"
    short, long = notes(file, 600), notes(file, 10, seconds=3)
    busy.create([*short, *long])
    # For a second nothing was noted after the short ones: a long one has begun.
    clock.late_when(lambda: noted(file) >= 600 and time.time() - file.stat().st_mtime > 1)
    tally = busy.group(turn_seconds=600).work()
    assert 600 < tally.total <= 603
    assert {state for state, _ in busy.states()[tally.total :]} == {"pending"}


def test_a_lane_keeps_its_order_over_turns(
    make: Make, waiting: Executing, connection: Connection, tmp_path: Path
) -> None:
    busy, file = make("busy", lane="body:/lane"), tmp_path / "noted"
    busy.create(
        ({"file": str(file), "lane": lane, "word": f"{lane}:{n}", "seconds": 0.05} for n in range(8) for lane in "ab"),
        stream="ward",
    )
    turns_taken = 0
    while {state for state, _ in busy.states()} != {"success"}:
        busy.group(turn_seconds=0.2, processes=2).work()
        turns_taken += 1
        assert turns_taken < 60
        ask(connection, waiting.name, seconds_ago=60)
    words = file.read_text().split()
    for lane in "ab":
        assert [word for word in words if word.startswith(lane)] == [f"{lane}:{n}" for n in range(8)]
    assert turns_taken > 1


ASKED = "SELECT asked_at IS NOT NULL FROM workorders.turns WHERE workflow_id = %(workflow_id)s"


def test_alone_it_works_until_nothing_waits_and_asks_no_more_from_its_first_run_on(
    make: Make, connection: Connection, tmp_path: Path
) -> None:
    busy, file = make("busy"), tmp_path / "noted"
    connection.execute("DELETE FROM workorders.turns")
    ask(connection, busy.name)
    busy.create(notes(file, 60, seconds=0.1))
    group = busy.group(turn_seconds=0.1)
    with ThreadPoolExecutor(1) as thread:
        working = thread.submit(group.work)
        assert wait_until(file.exists, seconds=30)
        assert busy.rows(ASKED) == [(False,)]
        assert not working.done()
    assert working.result().total == 60


def test_it_asks_on_when_there_was_nothing_that_it_might_claim(make: Make, connection: Connection) -> None:
    empty = make("empty")
    ask(connection, empty.name)
    assert empty.group(turn_seconds=600).work().total == 0
    assert empty.rows(ASKED) == [(True,)]
