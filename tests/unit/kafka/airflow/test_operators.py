"""The hand-over's decision, without an Airflow that would start the run."""

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException, DagRunTriggerException

from workorders.kafka.airflow.operators import TriggerIngestOperator


class Ti:
    """A task instance that may ask Airflow for runs, and leaves links nowhere."""

    def __init__(self, at_work: int) -> None:
        self.at_work = at_work
        self.asked: list[dict[str, Any]] = []

    def get_dr_count(self, **question: Any) -> int:
        self.asked.append(question)
        return self.at_work

    def xcom_push(self, **_: Any) -> None:
        """Forget it."""


def hand_over(ti: Ti, *, reset: bool) -> None:
    operator = TriggerIngestOperator(
        task_id="trigger_ingest", trigger_dag_id="orders_ingest", trigger_run_id="batch_7", reset_dag_run=reset
    )
    operator.execute({"ti": ti})  # type: ignore[typeddict-item]


def test_a_new_run_is_started_and_one_that_is_there_is_left_alone() -> None:
    with pytest.raises(DagRunTriggerException) as started:
        hand_over(Ti(at_work=1), reset=False)
    assert (started.value.trigger_dag_id, started.value.dag_run_id) == ("orders_ingest", "batch_7")
    assert started.value.skip_when_already_exists
    assert not started.value.reset_dag_run


def test_a_run_that_has_ended_is_started_again() -> None:
    ti = Ti(at_work=0)
    with pytest.raises(DagRunTriggerException) as started:
        hand_over(ti, reset=True)
    assert started.value.reset_dag_run
    assert ti.asked == [{"dag_id": "orders_ingest", "run_ids": ["batch_7"], "states": ["queued", "running"]}]


def test_a_run_that_is_at_work_is_never_reset() -> None:
    with pytest.raises(AirflowSkipException, match=r"^Run batch_7 of orders_ingest is active already"):
        hand_over(Ti(at_work=1), reset=True)
