"""What all waits in the triggerer have in common."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import psycopg
import pytest
from airflow.sdk.exceptions import AirflowNotFoundException, AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse
from airflow.triggers.base import TaskSkippedEvent, TaskSuccessEvent, TriggerEvent

from support.tries import a_try
from workorders.airflow.retries import unlimited_retries
from workorders.airflow.task_errors import TaskFailedError
from workorders.airflow.triggers import polling
from workorders.airflow.triggers.polling import FAILED, PollingSensor, PollingTrigger, Probe
from workorders.core.exceptions import ConfigurationError


class Scripted(PollingTrigger):
    """Finds, probe by probe, what a list contains: nothing, a reason, or a failure."""

    def __init__(self, script: Iterable[str | Exception | None], idle_after: float = 5.0) -> None:
        super().__init__(subject="Script", waiting_for="a reason", poll_interval=0.0, idle_after=idle_after)
        self.script = iter(script)
        self.entered = 0
        self.open = 0

    @asynccontextmanager
    async def open_probe(self) -> AsyncIterator[Probe]:
        """Count how often it was begun and ended."""
        self.entered += 1
        self.open += 1

        async def look() -> str | None:
            seen = next(self.script)
            if isinstance(seen, Exception):
                raise seen
            return seen

        try:
            yield look
        finally:
            self.open -= 1


def ended(trigger: PollingTrigger) -> TriggerEvent:
    async def first() -> TriggerEvent:
        return await anext(trigger.run())

    return asyncio.run(first())


@pytest.fixture
def delays(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the waits between looks, none of which is waited."""
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    return waited


def test_it_ends_the_task_with_success_once_a_look_finds_a_reason(delays: list[float]) -> None:
    trigger = Scripted([None, None, "There is one."])
    assert isinstance(ended(trigger), TaskSuccessEvent)
    assert (trigger.entered, trigger.open) == (1, 0)


def test_what_is_unavailable_is_probed_again_later_and_later_with_new_connections(delays: list[float]) -> None:
    away = psycopg.OperationalError("away")
    trigger = Scripted([away, away, away, "There is one."])
    assert isinstance(ended(trigger), TaskSuccessEvent)
    assert delays == [1, 2, 4]
    assert (trigger.entered, trigger.open) == (4, 0)


def test_a_failure_after_a_good_look_is_the_first_again(delays: list[float]) -> None:
    away = psycopg.OperationalError("away")
    trigger = Scripted([away, away, None, away, "There is one."])
    assert isinstance(ended(trigger), TaskSuccessEvent)
    assert delays == [1, 2, 0.0, 1]


def test_an_airflow_that_does_not_answer_is_asked_again_later(delays: list[float]) -> None:
    away = AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR))
    assert isinstance(ended(Scripted([away, "There is one."])), TaskSuccessEvent)
    assert delays == [1]


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ConfigurationError("The form is wrong."), "The form is wrong."),
        (AirflowNotFoundException("No `x`"), "No `x`: define this connection in Airflow. [WO-CONNECTION-UNDEFINED]"),
        (
            psycopg.errors.UndefinedTable("no table of that name"),
            "Postgres: no table of that name. [WO-POSTGRES-TABLES]",
        ),
        (psycopg.errors.QueryCanceled("statement timeout"), "Postgres: statement timeout. [WO-POSTGRES-FAILED]"),
        (psycopg.errors.ProgramLimitExceeded("string too long"), "Postgres: string too long. [WO-POSTGRES-FAILED]"),
        (psycopg.InterfaceError("the cursor is closed"), "Postgres: the cursor is closed. [WO-POSTGRES-FAILED]"),
        (
            psycopg.OperationalError('password authentication failed for user "w"'),
            'Postgres: password authentication failed for user "w". [WO-POSTGRES-REFUSED]',
        ),
    ],
)
def test_what_waiting_cannot_heal_goes_to_a_worker_for_only_there_is_the_retry_policy_asked(
    delays: list[float], error: Exception, sentence: str
) -> None:
    trigger = Scripted([error])
    event = ended(trigger)
    assert type(event) is TriggerEvent
    assert event.payload == {FAILED: f"Script: {sentence} Nothing was changed."}
    assert (delays, trigger.open) == ([], 0)


def test_there_the_task_fails_with_the_sentence_and_the_next_try(monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[str] = []
    monkeypatch.setattr(polling, "log_wrapped", lambda _, sentence: logged.append(sentence))
    sensor = PollingSensor(task_id="wait", trigger=Scripted([]), **unlimited_retries())
    with pytest.raises(TaskFailedError) as raised:
        sensor.execute_complete(a_try(3), {FAILED: "Script: no. Nothing was changed."})
    assert str(raised.value) == "Script: no. Nothing was changed. Next try in 4 s."
    assert logged == [str(raised.value)]


def test_a_wait_that_did_not_fail_is_over_without_a_word() -> None:
    PollingSensor(task_id="wait", trigger=Scripted([])).execute_complete(a_try(), "success")


def test_the_task_is_skipped_when_nothing_came_in_time() -> None:
    def nothing_without_end() -> Iterable[None]:
        while True:
            yield None

    assert isinstance(ended(Scripted(nothing_without_end(), idle_after=0.05)), TaskSkippedEvent)
