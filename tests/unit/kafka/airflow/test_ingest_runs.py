"""Which batches have a run at work, asked of an Airflow that is a set of run ids."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

from workorders.kafka.airflow.ingest_runs import MAX_RUN_IDS, IngestRuns, is_run_active, run_id


@dataclass
class Airflow:
    """Counts runs by id and state, as the execution API does; no ids count all."""

    states: dict[str, str]
    asked: list[int] = field(default_factory=list)

    def count(self, *, dag_id: str, run_ids: list[str], states: list[str] | None = None) -> int:
        assert dag_id == "orders_ingest"
        self.asked.append(len(run_ids))
        return sum(
            (not run_ids or run in run_ids) and (states is None or state in states)
            for run, state in self.states.items()
        )


def airflow(at_work: Iterable[int], ended: Iterable[int] = ()) -> Airflow:
    return Airflow({run_id(batch): "running" for batch in at_work} | {run_id(batch): "failed" for batch in ended})


def runs(of: Airflow) -> IngestRuns:
    return IngestRuns("orders_ingest", of.count)


def test_all_are_at_work_by_one_request() -> None:
    found = airflow({1, 2, 3})
    assert runs(found).active([1, 2, 3]) == {1, 2, 3}
    assert found.asked == [3]


def test_none_is_at_work_by_one_request() -> None:
    found = airflow(set(), ended={1, 2})
    assert runs(found).active([1, 2, 3]) == set()
    assert found.asked == [3]


def test_those_without_a_run_and_those_whose_run_has_ended_are_told_from_the_others() -> None:
    found = airflow({1, 3, 5, 8}, ended={2, 7})
    assert runs(found).active([1, 2, 3, 4, 5, 6, 7, 8]) == {1, 3, 5, 8}


def test_nothing_is_asked_about_no_batch() -> None:
    found = airflow({1})
    assert runs(found).active([]) == set()
    assert found.asked == []


def test_no_request_names_too_many_runs() -> None:
    many = range(10 * MAX_RUN_IDS)
    found = airflow(set(many) - {77})
    assert runs(found).active(many) == set(many) - {77}
    assert max(found.asked) <= MAX_RUN_IDS


@pytest.mark.parametrize(("state", "at_work"), [("queued", True), ("running", True), ("failed", False)])
def test_a_run_exists_in_every_state_and_is_at_work_until_it_ends(state: str, at_work: bool) -> None:
    found = Airflow({run_id(7): state})
    assert runs(found).exists(7)
    assert is_run_active("orders_ingest", run_id(7), found.count) is at_work
    assert not runs(found).exists(8)
