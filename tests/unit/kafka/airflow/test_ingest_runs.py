"""Which batches have an active run, and how a run is started, with an Airflow that is a table of runs."""

import logging
from collections.abc import Iterable, Sequence

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError

from support.dag_runs import DagRuns
from workorders import dag_ids
from workorders.airflow.dag_runs import client
from workorders.kafka.airflow.ingest_runs import MAX_NOTE_CHARACTERS, active, dispatch
from workorders.kafka.partitions import OffsetRange, Partition

LOG = logging.getLogger("ingest runs")
Lines = list[str]


class Keeping(logging.Handler):
    """Keeps the lines."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: Lines = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Lines:
    """What is logged."""
    keeping = Keeping()
    monkeypatch.setattr(LOG, "handlers", [keeping])
    LOG.setLevel(logging.INFO)
    return keeping.lines


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> DagRuns:
    """Airflow's Dag runs, as a task may ask for them."""
    return DagRuns.in_place(monkeypatch)


def at_work(table: DagRuns, running: Iterable[int], ended: Iterable[int] = ()) -> None:
    """Give the ingest runs of batches their states."""
    table.states = {dag_ids.batch(batch): "running" for batch in running} | {
        dag_ids.batch(batch): "failed" for batch in ended
    }
    table.confs = {name: {} for name in table.states}


def found(batch_ids: Sequence[int]) -> set[int]:
    """Return the batches whose run is active."""
    return active(client.DagRuns("orders_ingest"), batch_ids)


@pytest.mark.parametrize("running", [{1, 2, 3}, set()])
def test_all_or_none_at_work_are_found_by_one_request(table: DagRuns, running: set[int]) -> None:
    at_work(table, running, ended={1, 2} - running)
    assert found([1, 2, 3]) == running
    assert table.asked == ["GetDRCount"]


def test_those_without_a_run_and_those_whose_run_has_ended_are_told_from_the_others(table: DagRuns) -> None:
    at_work(table, {1, 3, 5, 8}, ended={2, 7})
    assert found([1, 2, 3, 4, 5, 6, 7, 8]) == {1, 3, 5, 8}


def test_nothing_is_asked_about_no_batch(table: DagRuns) -> None:
    at_work(table, {1})
    assert found([]) == set()
    assert table.asked == []


def test_no_request_names_too_many_runs(table: DagRuns) -> None:
    many = range(10 * client.MAX_IDS)
    at_work(table, set(many) - {77})
    assert found(many) == set(many) - {77}
    assert max(table.counted) <= client.MAX_IDS


def started(*, ranges: int = 1, is_new: bool = True) -> bool:
    """Start the Dag run of batch 7, with ranges of 100 messages each."""
    label = ", ".join(str(OffsetRange(Partition("orders", number, "a"), 0, 100)) for number in range(ranges))
    return dispatch(client.DagRuns("orders_ingest"), 7, label, LOG, is_new=is_new)


def test_a_new_batch_has_its_run_started_with_its_ranges_as_the_note(table: DagRuns, log: Lines) -> None:
    assert started()
    assert table.confs == {"batch_7": {"batch_id": 7}}
    assert table.notes == {"batch_7": "orders 0 [0, 100)"}
    assert table.asked == ["TriggerDagRun"]
    assert log == ["Started run batch_7 of Dag orders_ingest."]


def test_a_note_is_cut_where_airflow_would_refuse_it(table: DagRuns) -> None:
    assert started(ranges=100)
    note = str(table.notes["batch_7"])
    assert len(note) == MAX_NOTE_CHARACTERS
    assert note.endswith(" ...")


def test_a_batch_that_an_earlier_listener_left_is_named_in_the_log(table: DagRuns, log: Lines) -> None:
    assert started(is_new=False)
    assert log[0] == "Batch 7 is unfinished and has no run batch_7; it is dispatched now."


@pytest.mark.parametrize("state", ["queued", "running"])
def test_an_active_run_is_never_cleared(table: DagRuns, log: Lines, state: str) -> None:
    assert started()
    table.states["batch_7"] = state
    assert not started(is_new=False)
    assert table.cleared == []
    assert log[1] == "Run batch_7 of Dag orders_ingest is active already; nothing was started."


def test_a_run_that_the_last_try_started_without_hearing_the_answer_is_not_cleared(table: DagRuns) -> None:
    table.silent_for = ["TriggerDagRun"]
    with pytest.raises(AirflowRuntimeError):
        started()
    table.states["batch_7"] = "running"
    assert not started()
    assert table.cleared == []
