import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest
from anyio.to_thread import run_sync

from workorders.core import kept_value
from workorders.core.kept_value import KeptValue


class Source:
    """Something that is read, can fail and hang, and has a clock."""

    def __init__(self, stale_seconds: float = 0.0) -> None:
        self.now = 0.0
        self.reads = 0
        self.value: str | Exception = "first"
        self.continues = threading.Event()
        self.continues.set()
        self.kept = KeptValue(self._read, lambda: self.now, seconds=30, failure_seconds=5, stale_seconds=stale_seconds)

    def _read(self) -> str:
        self.reads += 1
        assert self.continues.wait(60)
        if isinstance(self.value, Exception):
            raise self.value
        return self.value

    async def get(self) -> str | None:
        """Return the value; None if it is unavailable."""
        try:
            return await self.kept.get()
        except (ConnectionError, TimeoutError):
            return None


def run(scene: Callable[[Source], Awaitable[None]], stale_seconds: float = 0.0) -> None:
    async def play() -> None:
        source = Source(stale_seconds)
        try:
            await scene(source)
        finally:
            source.continues.set()

    asyncio.run(play())


def test_callers_at_once_cause_one_read_whose_value_is_kept_for_a_time() -> None:
    async def scene(source: Source) -> None:
        assert await asyncio.gather(*(source.get() for _ in range(50))) == ["first"] * 50
        source.value, source.now = "second", 29
        assert (await source.get(), source.reads) == ("first", 1)
        source.now = 30
        assert (await source.get(), source.reads) == ("second", 2)

    run(scene)


def test_after_a_failure_no_read_follows_for_some_seconds() -> None:
    async def scene(source: Source) -> None:
        source.value = ConnectionError()
        assert [await source.get() for _ in range(20)] == [None] * 20
        assert source.reads == 1
        source.value, source.now = "first", 5
        assert await source.get() == "first"

    run(scene)


@pytest.mark.parametrize(("stale_seconds", "last"), [(0.0, None), (270.0, "first")])
def test_while_reads_fail_the_last_value_is_valid_for_a_bounded_time(stale_seconds: float, last: str | None) -> None:
    async def scene(source: Source) -> None:
        assert await source.get() == "first"
        source.value, source.now = ConnectionError(), 299
        assert await source.get() == last
        source.now = 300
        assert await source.get() is None

    run(scene, stale_seconds)


@pytest.mark.parametrize(("stale_seconds", "last"), [(0.0, None), (270.0, "first")])
def test_a_read_that_hangs_holds_no_caller_for_long_and_its_value_counts_when_it_ends(
    monkeypatch: pytest.MonkeyPatch, stale_seconds: float, last: str | None
) -> None:
    async def scene(source: Source) -> None:
        assert await source.get() == "first"
        # Not before: on a busy machine, the thread of a read may need as long to begin.
        monkeypatch.setattr(kept_value, "_SHORT_PATIENCE_SECONDS", 0.02)
        monkeypatch.setattr(kept_value, "_PATIENCE_SECONDS", 0.05)
        source.value, source.now = "second", 30
        source.continues.clear()
        assert [await source.get() for _ in range(2)] == [last] * 2
        source.now = 35
        assert (await source.get(), source.reads) == (last, 2)
        source.continues.set()
        while source.kept._reading:
            await asyncio.sleep(0.01)
        assert (await source.get(), source.reads) == ("second", 2)

    run(scene, stale_seconds)


def test_reads_that_hang_occupy_no_thread_that_others_use() -> None:
    async def scene(source: Source) -> None:
        source.continues.clear()
        hanging = [KeptValue(source._read, lambda: 0.0, seconds=1, failure_seconds=1) for _ in range(64)]
        waiting = [asyncio.create_task(kept.get()) for kept in hanging]
        while source.reads < len(hanging):
            await asyncio.sleep(0.01)
        assert await asyncio.wait_for(run_sync(lambda: True), 30)
        other = Source()
        assert await asyncio.wait_for(other.get(), 30) == "first"
        source.continues.set()
        assert await asyncio.gather(*waiting) == ["first"] * 64

    run(scene)
