import asyncio
from collections.abc import Callable
from threading import Event

import pytest

from workorders.webhook.threads import THREADS, THREADS_FOR_STRANGERS, Threads


async def others_answer(hanging: Callable[[Threads, Callable[[], bool]], list[asyncio.Future[bool]]]) -> None:
    """Let some work hang; a known caller of another webhook is served nevertheless."""
    threads, release = Threads(), Event()
    held = hanging(threads, lambda: release.wait(60))
    try:
        await asyncio.sleep(0)
        assert await asyncio.wait_for(threads.run("other", lambda: True, is_known=True), 30)
    finally:
        release.set()
        assert all(await asyncio.gather(*held))


@pytest.mark.parametrize("is_known", [True, False])
def test_a_webhook_whose_database_hangs_leaves_threads_to_the_others(*, is_known: bool) -> None:
    def hang(threads: Threads, wait: Callable[[], bool]) -> list[asyncio.Future[bool]]:
        return [asyncio.ensure_future(threads.run("hanging", wait, is_known=is_known)) for _ in range(3 * THREADS)]

    asyncio.run(others_answer(hang))


def test_strangers_of_many_webhooks_take_no_thread_of_known_callers() -> None:
    def hang(threads: Threads, wait: Callable[[], bool]) -> list[asyncio.Future[bool]]:
        return [
            asyncio.ensure_future(threads.run(f"public {number}", wait, is_known=False))
            for number in range(3 * (THREADS + THREADS_FOR_STRANGERS))
        ]

    asyncio.run(others_answer(hang))


def test_questions_that_hang_take_no_thread_of_requests() -> None:
    def hang(threads: Threads, wait: Callable[[], bool]) -> list[asyncio.Future[bool]]:
        return [
            asyncio.ensure_future(threads.run_alone(f"connection {number % 4}", wait)) for number in range(3 * THREADS)
        ]

    asyncio.run(others_answer(hang))
