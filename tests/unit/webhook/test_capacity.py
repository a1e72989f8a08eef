import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from workorders.webhook import capacity
from workorders.webhook.capacity import Capacity
from workorders.webhook.refusals import RefusedError

SHARE = 1000


async def parts(*sent: bytes, forever: bool = False) -> AsyncIterator[bytes]:
    for part in sent:
        yield part
        await asyncio.sleep(0)
    if forever:
        await asyncio.Event().wait()


async def trickle(part: bytes, every: float) -> AsyncIterator[bytes]:
    while True:
        yield part
        await asyncio.sleep(every)


async def receive(
    held: Capacity, stream: AsyncIterator[bytes], peer: str = "a", *, max_bytes: int = 100, gives_way: bool = True
) -> bytes | str:
    """Return the body, or the word of the refusal."""
    try:
        with held.incoming(peer, SHARE, gives_way=gives_way) as body:
            return await body.read(stream, max_bytes)
    except RefusedError as refusal:
        return refusal.code


async def hang(held: Capacity, *sent: bytes, peer: str = "a", gives_way: bool = True) -> "asyncio.Task[bytes | str]":
    """Begin a body that does not end."""
    task = asyncio.create_task(receive(held, parts(*sent or (b"x",), forever=True), peer, gives_way=gives_way))
    for _ in range(5):
        await asyncio.sleep(0)
    return task


def run(scene: Callable[[Capacity], Awaitable[None]]) -> None:
    """Play a scene in a held that must be empty after it."""

    async def play() -> None:
        held = Capacity()
        await scene(held)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert (held._bytes, len(held._incoming), held._processing, held._waiting) == (0, 0, 0, 0)

    asyncio.run(play())


def test_a_body_arrives_in_parts() -> None:
    async def scene(held: Capacity) -> None:
        assert await receive(held, parts(b"a", b"", b"bc")) == b"abc"

    run(scene)


def test_a_body_that_is_too_large_is_refused_at_the_first_byte_too_many() -> None:
    async def scene(held: Capacity) -> None:
        assert await receive(held, parts(b"a" * 100, b"b", forever=True)) == "too-large"

    run(scene)


def test_a_caller_that_sends_nothing_or_too_little_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "FIRST_SECONDS", 0.1)

    async def scene(held: Capacity) -> None:
        assert await receive(held, parts(forever=True)) == "too-slow"
        assert await receive(held, trickle(b"x", 0.01)) == "too-slow"

    run(scene)


def test_a_body_that_keeps_up_the_rate_gets_more_time_and_not_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "FIRST_SECONDS", 0.1)
    monkeypatch.setattr(capacity, "MIN_BYTES_PER_SECOND", 10)
    monkeypatch.setattr(capacity, "MAX_SECONDS", 0.5)

    async def scene(held: Capacity) -> None:
        began = asyncio.get_running_loop().time()
        assert await receive(held, trickle(b"xx", 0.02), max_bytes=10_000) == "too-slow"
        assert asyncio.get_running_loop().time() - began >= 0.5

    run(scene)


def test_the_oldest_body_of_an_unknown_sender_makes_room_for_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "MAX_INCOMING", 3)

    async def scene(held: Capacity) -> None:
        strangers = [await hang(held, peer=f"stranger {number}") for number in range(3)]
        assert await receive(held, parts(b"{}"), "caller") == b"{}"
        assert await strangers[0] == "busy"
        assert not strangers[1].done()

    run(scene)


def test_an_address_with_many_bodies_loses_its_own_oldest_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "MAX_INCOMING_FROM_ADDRESS", 2)

    async def scene(held: Capacity) -> None:
        other = await hang(held, peer="other")
        strangers = [await hang(held, peer="stranger") for _ in range(3)]
        assert await strangers[0] == "busy"
        assert not other.done()
        assert not strangers[1].done()

    run(scene)


def test_known_callers_do_not_take_places_from_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "MAX_INCOMING", 2)
    monkeypatch.setattr(capacity, "MAX_INCOMING_FROM_ADDRESS", 1)

    async def scene(held: Capacity) -> None:
        callers = [await hang(held, gives_way=False) for _ in range(2)]
        assert await receive(held, parts(b"{}"), gives_way=False) == "busy"
        assert not any(caller.done() for caller in callers)

    run(scene)


def test_no_more_bytes_are_held_than_the_webhooks_share(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unknown(held: Capacity) -> None:
        strangers = [await hang(held, b"x" * 100) for _ in range(10)]
        assert held._bytes == SHARE
        assert await receive(held, parts(b"{}")) == b"{}"
        assert await strangers[0] == "busy"
        assert held._bytes <= SHARE

    async def known(held: Capacity) -> None:
        callers = [await hang(held, b"x" * 100, gives_way=False) for _ in range(10)]
        assert await receive(held, parts(b"{}"), gives_way=False) == "busy"
        assert not any(caller.done() for caller in callers)

    run(unknown)
    run(known)


def test_a_body_that_arrived_keeps_its_bytes_until_its_request_is_done_and_is_not_dropped() -> None:
    async def scene(held: Capacity) -> None:
        with held.incoming("a", SHARE, gives_way=True) as body:
            await body.read(parts(b"x" * SHARE), SHARE)
            with held.processing(body):
                assert await receive(held, parts(b"{}")) == "busy"
        assert await receive(held, parts(b"{}")) == b"{}"

    run(scene)


def test_requests_in_work_and_waiting_callers_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "MAX_PROCESSING", 1)
    monkeypatch.setattr(capacity, "MAX_WAITING", 1)

    async def scene(held: Capacity) -> None:
        with held.processing(), pytest.raises(RefusedError) as refused, held.processing():
            pass
        assert refused.value.code == "busy"
        with held.processing():
            pass
        with held.waiting() as first, held.waiting() as second:
            assert (first, second) == (True, False)
        with held.waiting() as third:
            assert third

    run(scene)
