import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from workorders.webhook import secrets
from workorders.webhook.method import Secret
from workorders.webhook.refusals import TryAgainError
from workorders.webhook.secrets import FAILURE_SECONDS, KEEP_SECONDS, LAST_KNOWN_SECONDS, Secrets


class Backend:
    """A secrets backend that can fail and hang, and a clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked: list[str] = []
        self.password = "first"
        self.fails = False
        self.hanging: dict[str, asyncio.Event] = {}
        self.secrets = Secrets(self.ask, lambda: self.now)

    async def ask(self, connection_id: str) -> Secret:
        self.asked.append(connection_id)
        if connection_id in self.hanging:
            await self.hanging[connection_id].wait()
        if self.fails:
            raise ConnectionError("hunter2")
        return Secret("", self.password)

    async def password_of(self, connection_id: str = "a") -> str | None:
        """Return what callers are checked against; None if no caller is admitted."""
        try:
            return (await self.secrets.get(connection_id)).password
        except TryAgainError:
            return None


def run(scene: Callable[[Backend], Awaitable[None]]) -> None:
    async def play() -> None:
        await scene(Backend())

    asyncio.run(play())


def test_a_secret_is_kept_for_a_moment_and_a_changed_one_counts_after_it() -> None:
    async def scene(backend: Backend) -> None:
        assert await backend.password_of() == "first"
        backend.password = "second"
        backend.now = KEEP_SECONDS - 1
        assert (await backend.password_of(), backend.asked) == ("first", ["a"])
        backend.now = KEEP_SECONDS
        assert (await backend.password_of(), backend.asked) == ("second", ["a", "a"])

    run(scene)


def test_callers_at_once_ask_once() -> None:
    async def scene(backend: Backend) -> None:
        assert await asyncio.gather(*(backend.password_of() for _ in range(50))) == ["first"] * 50
        assert backend.asked == ["a"]

    run(scene)


def test_a_look_up_that_hangs_delays_no_caller_of_another_connection() -> None:
    async def scene(backend: Backend) -> None:
        assert await backend.password_of("b") == "first"
        backend.hanging["a"] = asyncio.Event()
        waiting = [asyncio.create_task(backend.password_of("a")) for _ in range(8)]
        await asyncio.sleep(0)
        for known_or_new in ("b", "c"):
            assert await asyncio.wait_for(backend.password_of(known_or_new), 0.5) == "first"
        assert not any(task.done() for task in waiting)
        backend.hanging["a"].set()
        assert await asyncio.gather(*waiting) == ["first"] * 8

    run(scene)


def test_after_a_failure_no_look_up_follows_for_some_seconds(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(backend: Backend) -> None:
        backend.fails = True
        assert [await backend.password_of() for _ in range(20)] == [None] * 20
        assert backend.asked == ["a"]
        backend.now, backend.fails = FAILURE_SECONDS, False
        assert await backend.password_of() == "first"

    with caplog.at_level(logging.ERROR):
        run(scene)
    assert len(caplog.records) == 1
    assert "hunter2" not in caplog.text


def test_while_the_backend_is_unavailable_the_last_known_secret_counts_for_a_bounded_time() -> None:
    async def scene(backend: Backend) -> None:
        assert await backend.password_of() == "first"
        backend.fails = True
        backend.now = LAST_KNOWN_SECONDS - 1
        assert await backend.password_of() == "first"
        backend.now = LAST_KNOWN_SECONDS
        assert await backend.password_of() is None

    run(scene)


def test_a_password_that_was_removed_admits_no_caller() -> None:
    async def scene(backend: Backend) -> None:
        assert await backend.password_of() == "first"
        backend.password, backend.now = "", KEEP_SECONDS
        assert await backend.password_of() is None
        backend.fails, backend.now = True, KEEP_SECONDS + FAILURE_SECONDS
        assert await backend.password_of() is None

    run(scene)


def test_who_can_be_served_by_the_last_known_secret_does_not_wait_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_SHORT_PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(secrets, "_PATIENCE_SECONDS", 0.1)

    async def scene(backend: Backend) -> None:
        assert await backend.password_of() == "first"
        backend.now = KEEP_SECONDS
        backend.hanging["a"] = asyncio.Event()
        assert await asyncio.wait_for(backend.password_of(), 30) == "first"
        assert await asyncio.wait_for(backend.password_of(), 30) == "first"
        assert backend.asked == ["a", "a"]
        backend.hanging["b"] = asyncio.Event()
        assert await asyncio.wait_for(backend.password_of("b"), 30) is None
        backend.password = "second"
        for event in backend.hanging.values():
            event.set()
        while any(known.asking for known in backend.secrets._connections.values()):
            await asyncio.sleep(0)
        assert (await backend.password_of("a"), await backend.password_of("b")) == ("second", "second")

    run(scene)
