import asyncio
from collections.abc import Collection
from uuid import UUID, uuid4

import pytest

from workorders.webhook import completion
from workorders.webhook.completion import CompletionPoller


def test_all_callers_are_asked_for_together_and_each_gets_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "POLL_SECONDS", 60.0)
    ids = [uuid4() for _ in range(20)]
    questions: list[int] = []

    def ask(wanted: Collection[UUID]) -> list[UUID]:
        questions.append(len(wanted))
        return [id_ for id_ in wanted if id_ != ids[0]]

    async def scene() -> list[bool]:
        waiting = CompletionPoller(ask)
        return await asyncio.gather(*(waiting.wait_for(id_, 1.0) for id_ in [*ids, *ids]))

    assert asyncio.run(scene()) == ([False] + [True] * 19) * 2
    assert questions == [20]


def test_a_question_that_fails_is_asked_again_and_the_time_limit_holds() -> None:
    asked = 0

    def ask(_: Collection[UUID]) -> list[UUID]:
        nonlocal asked
        asked += 1
        raise ConnectionError

    async def scene() -> bool:
        return await CompletionPoller(ask).wait_for(uuid4(), 0.2)

    assert asyncio.run(scene()) is False
    assert asked == 1


def test_without_waiting_callers_nothing_is_polled() -> None:
    questions: list[int] = []

    def ask(wanted: Collection[UUID]) -> list[UUID]:
        questions.append(len(wanted))
        return []

    async def scene() -> None:
        waiting = CompletionPoller(ask)
        assert await waiting.wait_for(uuid4(), 0.1) is False
        task = waiting._task
        assert task is not None
        await task

    asyncio.run(scene())
    assert questions == [1]
