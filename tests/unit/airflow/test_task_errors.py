"""The sentence of a failure is logged in lines that can be read without scrolling, right before the failure itself."""

import logging
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException

from support.tries import a_try
from workorders.airflow import task_errors
from workorders.airflow.retries import unlimited_retries
from workorders.airflow.task_errors import LINE_LENGTH, TaskFailedError, explain_failures
from workorders.core.exceptions import WorkOrdersError

PLACES = ", ".join(f"health.events {partition} [49, 74)" for partition in range(20))
SENTENCE = (
    f"Trigger events, batch 2: {PLACES}: type `workorders resolve skip-lost events health.events`. Next try in 4 s."
)
PATH = "/" + "a-long-name/" * 20


def failing(error: Exception) -> None:
    task: Any = SimpleNamespace(log=logging.getLogger("task"))
    with explain_failures(task, a_try(), "Here", "Nothing.", final=(WorkOrdersError,)):
        raise error


def test_a_long_sentence_is_logged_in_short_lines_and_raised_whole(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(AirflowFailException) as raised:
        failing(WorkOrdersError(SENTENCE))
    assert str(raised.value) == SENTENCE
    assert len(caplog.messages) > 1
    assert max(map(len, caplog.messages)) <= LINE_LENGTH
    assert " ".join(caplog.messages) == SENTENCE
    assert {record.levelno for record in caplog.records} == {logging.ERROR}


def test_what_is_to_be_copied_is_not_torn_apart(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(AirflowFailException):
        failing(WorkOrdersError(f"See {PATH} for more."))
    assert PATH in caplog.messages


def test_a_bug_of_ours_passes_as_it_is_and_logs_nothing_in_addition_to_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    error = KeyError("x")
    with pytest.raises(KeyError) as raised:
        failing(error)
    assert raised.value is error
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (WorkOrdersError("Kafka did not answer."), "Kafka did not answer."),
        (
            psycopg.OperationalError("refused\n\tIs it running?"),
            "Postgres: refused Is it running? [WO-POSTGRES-UNAVAILABLE]",
        ),
        (psycopg.OperationalError("no such host"), "Postgres: no such host. [WO-POSTGRES-UNAVAILABLE]"),
        (
            AirflowNotFoundException("There is no `x`"),
            "There is no `x`: define this connection in Airflow. [WO-CONNECTION-UNDEFINED]",
        ),
    ],
)
def test_the_whole_sentence_has_where_why_what_was_not_done_and_when_the_next_try_is(
    error: Exception, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged: list[str] = []
    monkeypatch.setattr(task_errors, "log_wrapped", lambda _, sentence: logged.append(sentence))
    with (
        pytest.raises(TaskFailedError) as raised,
        explain_failures(
            BaseOperator(task_id="a", **unlimited_retries()), a_try(2), "Trigger orders", "Nothing was done."
        ),
    ):
        raise error
    assert str(raised.value) == f"Trigger orders: {why} Nothing was done. Next try in 2 s."
    assert logged == [str(raised.value)]
    assert raised.value.__cause__ is error
