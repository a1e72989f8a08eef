"""How a silence of Airflow's API is stood."""

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse

from workorders.airflow.dag_runs import api_outage
from workorders.airflow.dag_runs.api_outage import Outage
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


def test_pauses_grow_until_an_answer_comes_and_begin_anew_after_it() -> None:
    said: list[str] = []
    silence = Outage(said.append)
    pauses = []
    for _ in range(8):
        silence.met(error(None))
        pauses.append(silence.pause_seconds)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    silence.answered()
    silence.answered()
    assert silence.pause_seconds == 0
    assert ("asked again in 60 s" in said[7], len(said)) == (True, 9)
    silence.met(error(None))
    assert silence.pause_seconds == 1


def test_a_silence_that_lasts_too_long_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    silence = Outage(lambda _: None)
    silence.met(error(None))
    monkeypatch.setattr(api_outage, "LONGEST_SECONDS", -1.0)
    with pytest.raises(AirflowRuntimeError):
        silence.met(error(None))
