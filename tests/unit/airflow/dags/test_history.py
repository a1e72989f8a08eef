"""The shape of the Dags of history, and what their forms ask for."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from airflow.sdk import DAG
from airflow.sdk.definitions.timetables.simple import NullTimetable
from airflow.sdk.exceptions import ParamValidationError
from airflow.serialization.serialized_objects import DagSerialization

from workorders.airflow.dags.history import history_dags
from workorders.airflow.operators.bulk_jobs import filter_of, form
from workorders.core.bulk.jobs import HEARTBEAT_TIMEOUT, KINDS
from workorders.core.exceptions import ConfigurationError
from workorders.core.history.filters import Filter

DAGS = history_dags()
EMPTY: dict[str, Any] = {
    name: param.value for name, param in form("rerun").items() if name not in {"reason", "dry_run"}
}


def test_there_is_a_dag_for_each_kind_of_job_one_for_those_left_two_for_the_upkeep_and_one_for_the_metrics() -> None:
    by_clock = {"workorders_jobs", "workorders_retention", "workorders_search_index"}
    assert set(DAGS) == {*(f"workorders_{kind}" for kind in KINDS), *by_clock, "workorders_metrics"}


@pytest.mark.parametrize("dag", DAGS.values(), ids=DAGS)
def test_a_dag_survives_serialization(dag: DAG) -> None:
    assert DagSerialization.to_dict(dag)["dag"]["dag_id"] == dag.dag_id


@pytest.mark.parametrize("kind", KINDS)
def test_a_form_runs_on_request_only_begins_with_a_dry_run_and_wants_a_reason(kind: str) -> None:
    dag = DAGS[f"workorders_{kind}"]
    assert isinstance(dag.timetable, NullTimetable)
    assert dag.params["dry_run"] is True
    with pytest.raises(ParamValidationError):
        dag.params.validate()
    dag.params["reason"] = "a test"
    dag.params.validate()


@pytest.mark.parametrize("kind", KINDS)
def test_a_try_after_a_crash_comes_when_the_job_can_be_taken_over(kind: str) -> None:
    (task,) = DAGS[f"workorders_{kind}"].tasks
    assert task.retries
    assert task.retry_delay > HEARTBEAT_TIMEOUT


def test_an_export_is_a_file_that_never_leaves_its_folder() -> None:
    field = form("export")["file"]
    field.value = "failed.csv"
    field.resolve()
    for name in ("../failed.csv", "/etc/failed.csv", "failed.txt", ".csv"):
        field.value = name
        with pytest.raises(ParamValidationError):
            field.resolve()


def test_an_empty_form_asks_for_nothing_and_a_full_one_for_all() -> None:
    assert filter_of(EMPTY) == Filter()
    given = {
        "trigger": "orders",
        "state": "failed",
        "since": "2026-03-01T14:30:00+01:00",
        "until": "2026-03-02",
        "from_position": 0,
        "ordering_key": "PAT-1",
        "text": "ada",
        "id": "01997a3e-6f4c-7000-8a4f-5d8a1c2b3e4f",
    }
    assert filter_of({**EMPTY, **given}) == Filter(
        trigger="orders",
        state="failed",
        since=datetime(2026, 3, 1, 13, 30, tzinfo=UTC),
        until=datetime(2026, 3, 2, tzinfo=UTC),
        from_position=0,
        ordering_key="PAT-1",
        text="ada",
        id=UUID("01997a3e-6f4c-7000-8a4f-5d8a1c2b3e4f"),
    )


@pytest.mark.parametrize(("field", "value"), [("since", "yesterday"), ("id", "7"), ("id", "z" * 32)])
def test_a_field_of_a_wrong_form_is_named(field: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{field}: expected"):
        filter_of({**EMPTY, field: value})
