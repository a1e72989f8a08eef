"""Which errors of Airflow's API pass by themselves."""

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse

from workorders.airflow.dag_runs.client import is_outage


def error(status: int | None, type_: ErrorType = ErrorType.API_SERVER_ERROR) -> AirflowRuntimeError:
    """Return what a task is told."""
    return AirflowRuntimeError(ErrorResponse(error=type_, detail={"status_code": status, "message": "no"}))


@pytest.mark.parametrize(
    ("status", "expected"), [(None, True), (500, True), (503, True), (429, True), (404, False), (403, False)]
)
def test_no_answer_and_an_error_of_the_server_are_an_outage_and_a_refusal_is_none(
    status: int | None, expected: bool
) -> None:
    assert is_outage(error(status)) is expected


def test_what_a_task_may_not_do_is_no_outage() -> None:
    assert not is_outage(error(None, ErrorType.PERMISSION_DENIED))
