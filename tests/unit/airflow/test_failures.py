"""The sentence of a failure stands in lines that can be read without scrolling, right before the failure itself."""

import logging
from types import SimpleNamespace

import pytest

from workorders.airflow.failures import LINE_LENGTH, readable
from workorders.core.exceptions import WorkOrdersError

PLACES = ", ".join(f"health.events {partition} [49, 74)" for partition in range(20))
SENTENCE = f"Trigger events, batch 2: {PLACES}: type `workorders resolve resume events health.events`. Next try in 4 s."
PATH = "/" + "a-long-name/" * 20


def failing(error: Exception) -> None:
    @readable
    def execute(self: object, context: object) -> None:
        raise error

    execute(SimpleNamespace(log=logging.getLogger("task")), {})


def test_a_long_sentence_is_logged_in_short_lines_and_raised_whole(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(WorkOrdersError) as raised:
        failing(WorkOrdersError(SENTENCE))
    assert str(raised.value) == SENTENCE
    assert len(caplog.messages) > 1
    assert max(map(len, caplog.messages)) <= LINE_LENGTH
    assert " ".join(caplog.messages) == SENTENCE
    assert {record.levelno for record in caplog.records} == {logging.ERROR}


def test_what_is_to_be_copied_is_not_torn_apart(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(WorkOrdersError):
        failing(WorkOrdersError(f"See {PATH} for more."))
    assert PATH in caplog.messages


def test_an_error_that_is_a_mistake_of_ours_says_nothing_beside_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(KeyError):
        failing(KeyError("x"))
    assert caplog.messages == []
