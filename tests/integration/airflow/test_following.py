"""What becomes of runs that are DAG runs, on a real database, and an Airflow that is a table of DAG runs."""

from collections.abc import Callable
from threading import Event
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType

from local_stack.stack import LocalStack
from support.dag_runs import DagRuns
from support.eventually import eventually
from support.executing import Executing
from workorders.airflow.following import Following
from workorders.core.execution.tally import Tally

pytestmark = pytest.mark.integration

Make = Callable[..., Executing]


@pytest.fixture
def make(stack: LocalStack, name: str) -> Make:
    """Makes a workflow of this test whose runs are DAG runs."""
    return lambda **fields: Executing(stack.database_url, name, None, **{"dag_id": "visits", **fields})


@pytest.fixture
def dag_runs(monkeypatch: pytest.MonkeyPatch) -> DagRuns:
    """An Airflow in place of the supervisor that a task talks to."""
    return DagRuns.in_place(monkeypatch)


def follow(executing: Executing, **fields: Any) -> Tally:
    """Follow whatever waits, as a task does."""
    given = {"stop": Event(), "claim_seconds": 60.0, "turn": "a turn", "say": executing.said.append, **fields}
    return Following(executing.url, executing.workflow, **given).work()


WORDS = """
    SELECT body ->> 'word', runs.state::text
    FROM workorders.runs JOIN workorders.dataclips ON dataclips.id = work_order_id
    WHERE workflow_id = %(workflow_id)s
"""


def lanes(numbers: range) -> list[dict[str, Any]]:
    """Return inputs of three lanes, whose third one fails at the first attempt."""
    return [
        {"lane": lane, "number": number, "word": f"{lane}:{number}"} for number in numbers for lane in ("a", "b", "c")
    ]


def test_a_lane_has_one_dag_run_at_a_time_in_the_order_of_the_source_and_lanes_go_side_by_side(
    make: Make, dag_runs: DagRuns
) -> None:
    executing = make(lane="body:/lane", processes=6)
    executing.create(lanes(range(4)), stream="ward")
    begun: list[str] = []
    side_by_side: list[int] = []

    def starts(conf: dict[str, Any]) -> None:
        states = dict(executing.rows(WORDS))
        before = [f"{conf['lane']}:{number}" for number in range(conf["number"])]
        assert [states[word] for word in before] == ["success"] * len(before)
        begun.append(conf["word"])
        side_by_side.append(sum(state == "started" for state in states.values()))

    dag_runs.on_start = starts
    assert follow(executing).states == {"success": 12}
    assert {lane: [word for word in begun if word.startswith(lane)] for lane in ("a", "b", "c")} == {
        lane: [f"{lane}:{number}" for number in range(4)] for lane in ("a", "b", "c")
    }
    assert max(side_by_side) == 3


def test_what_stands_behind_a_retry_in_its_lane_waits_for_it(make: Make, dag_runs: DagRuns) -> None:
    executing = make(lane="body:/lane", processes=6, retries={"attempts": 1, "first_delay_seconds": 0})
    executing.create(lanes(range(4)), stream="ward")
    begun: list[str] = []

    def starts(conf: dict[str, Any]) -> None:
        conf["end"] = "failed" if conf["number"] == 1 and conf["word"] not in begun else "success"
        begun.append(conf["word"])

    dag_runs.on_start = starts
    eventually(
        lambda: follow(executing) and {state for state, _ in executing.states()} == {"success"},
        seconds=60,
        what="the success of all",
    )
    for lane in ("a", "b", "c"):
        assert [word for word in begun if word.startswith(lane)] == [f"{lane}:{number}" for number in (0, 1, 1, 2, 3)]


def test_a_group_that_is_stopped_gives_back_what_it_has_not_begun(make: Make, dag_runs: DagRuns) -> None:
    executing = make(lane="body:/lane", processes=6)
    executing.create(lanes(range(2)), stream="ward")
    stop = Event()
    dag_runs.on_look = lambda _: stop.set()
    follow(executing, stop=stop)
    assert executing.states() == [("running", "started")] * 3 + [("pending", "available")] * 3


def test_dag_runs_that_airflow_has_taken_are_followed_to_their_ends_when_it_takes_no_more(
    make: Make, dag_runs: DagRuns
) -> None:
    executing = make(processes=2)
    executing.create([{}] * 4)

    def starts(_: dict[str, Any]) -> None:
        if len(dag_runs.confs) == 1:
            dag_runs.refuse = ErrorType.GENERIC_ERROR

    dag_runs.on_start = starts
    with pytest.raises(AirflowRuntimeError):
        follow(executing)
    assert sorted(state for state, _ in executing.states()) == ["pending"] * 2 + ["success"] * 2
