import asyncio
from collections.abc import Collection
from uuid import UUID, uuid4

from workorders.core.outcomes import Outcome
from workorders.webhook.waiting import Waiting


def outcome(id_: UUID) -> Outcome:
    return Outcome(id_, "success", None, None, None)


def test_all_callers_are_asked_for_together_and_each_gets_its_own() -> None:
    ids = [uuid4() for _ in range(20)]
    questions: list[int] = []

    async def ask(wanted: Collection[UUID]) -> list[Outcome]:
        questions.append(len(wanted))
        return [outcome(id_) for id_ in wanted]

    async def scene() -> list[Outcome | None]:
        waiting = Waiting(ask)
        return await asyncio.gather(*(waiting.outcome(id_, 30) for id_ in [*ids, *ids]))

    assert [found.id for found in asyncio.run(scene()) if found] == [*ids, *ids]
    assert questions == [20]


def test_a_question_that_fails_is_asked_again_and_the_time_limit_holds() -> None:
    asked = 0

    async def ask(_: Collection[UUID]) -> list[Outcome]:
        nonlocal asked
        asked += 1
        raise ConnectionError

    async def scene() -> Outcome | None:
        return await Waiting(ask).outcome(uuid4(), 0.2)

    assert asyncio.run(scene()) is None
    assert asked == 1


def test_nobody_is_asked_for_once_nobody_waits() -> None:
    questions: list[int] = []

    async def ask(wanted: Collection[UUID]) -> list[Outcome]:
        questions.append(len(wanted))
        return []

    async def scene() -> None:
        waiting = Waiting(ask)
        assert await waiting.outcome(uuid4(), 0.1) is None
        task = waiting._task
        assert task is not None
        await task

    asyncio.run(scene())
    assert questions == [1]
