"""What all waits in the triggerer have in common."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
from airflow.triggers.base import TaskFailedEvent, TaskSkippedEvent, TaskSuccessEvent, TriggerEvent

from workorders.airflow.waiting import Look, WaitingTrigger
from workorders.core.exceptions import ConfigurationError


class Scripted(WaitingTrigger):
    """Sees, look by look, what a list says: nothing, a reason, or a failure."""

    subject = "Script"
    awaited = "a reason"

    def __init__(self, script: Iterable[str | Exception | None], idle_after: float = 5.0) -> None:
        super().__init__(poll_interval=0.0, idle_after=idle_after)
        self.script = iter(script)
        self.entered = 0
        self.open = 0

    def arguments(self) -> dict[str, Any]:
        """Return nothing: it is not stored."""
        return {}

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[Look]:
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


def ended(trigger: WaitingTrigger) -> TriggerEvent:
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


def test_what_is_away_is_asked_again_later_and_later_by_connections_looked_up_anew(delays: list[float]) -> None:
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


def test_what_waiting_cannot_heal_fails_the_task(delays: list[float]) -> None:
    trigger = Scripted([ConfigurationError("No such connection.")])
    assert isinstance(ended(trigger), TaskFailedEvent)
    assert trigger.open == 0


def test_the_task_is_skipped_when_nothing_came_in_time() -> None:
    def nothing_for_ever() -> Iterable[None]:
        while True:
            yield None

    assert isinstance(ended(Scripted(nothing_for_ever(), idle_after=0.05)), TaskSkippedEvent)
