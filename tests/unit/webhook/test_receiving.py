import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from workorders.webhook import receiving
from workorders.webhook.receiving import Room
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
    room: Room, stream: AsyncIterator[bytes], peer: str = "a", *, max_bytes: int = 100, gives_way: bool = True
) -> bytes | str:
    """Return the body, or the word of the refusal."""
    try:
        with room.arriving(peer, SHARE, gives_way=gives_way) as body:
            return await body.read(stream, max_bytes)
    except RefusedError as refusal:
        return refusal.code


async def hang(room: Room, *sent: bytes, peer: str = "a", gives_way: bool = True) -> "asyncio.Task[bytes | str]":
    """Begin a body that does not end."""
    task = asyncio.create_task(receive(room, parts(*sent or (b"x",), forever=True), peer, gives_way=gives_way))
    for _ in range(5):
        await asyncio.sleep(0)
    return task


def run(scene: Callable[[Room], Awaitable[None]]) -> None:
    """Play a scene in a room that must be empty after it."""

    async def play() -> None:
        room = Room()
        await scene(room)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert (room._bytes, len(room._arriving), room._worked_on, room._waiting) == (0, 0, 0, 0)

    asyncio.run(play())


def test_a_body_arrives_in_parts() -> None:
    async def scene(room: Room) -> None:
        assert await receive(room, parts(b"a", b"", b"bc")) == b"abc"

    run(scene)


def test_a_body_that_is_too_large_is_refused_at_the_first_byte_too_many() -> None:
    async def scene(room: Room) -> None:
        assert await receive(room, parts(b"a" * 100, b"b", forever=True)) == "too-large"

    run(scene)


def test_a_caller_that_sends_nothing_or_too_little_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "FIRST_SECONDS", 0.1)

    async def scene(room: Room) -> None:
        assert await receive(room, parts(forever=True)) == "too-slow"
        assert await receive(room, trickle(b"x", 0.01)) == "too-slow"

    run(scene)


def test_a_body_that_keeps_up_the_rate_gets_more_time_and_not_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "FIRST_SECONDS", 0.1)
    monkeypatch.setattr(receiving, "MIN_BYTES_PER_SECOND", 10)
    monkeypatch.setattr(receiving, "MAX_SECONDS", 0.5)

    async def scene(room: Room) -> None:
        began = asyncio.get_running_loop().time()
        assert await receive(room, trickle(b"xx", 0.02), max_bytes=10_000) == "too-slow"
        assert asyncio.get_running_loop().time() - began >= 0.5

    run(scene)


def test_the_oldest_body_of_an_unknown_sender_makes_room_for_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "MAX_ARRIVING", 3)

    async def scene(room: Room) -> None:
        strangers = [await hang(room, peer=f"stranger {number}") for number in range(3)]
        assert await receive(room, parts(b"{}"), "caller") == b"{}"
        assert await strangers[0] == "busy"
        assert not strangers[1].done()

    run(scene)


def test_an_address_with_many_bodies_loses_its_own_oldest_and_nobody_elses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "MAX_ARRIVING_FROM_PEER", 2)

    async def scene(room: Room) -> None:
        other = await hang(room, peer="other")
        strangers = [await hang(room, peer="stranger") for _ in range(3)]
        assert await strangers[0] == "busy"
        assert not other.done()
        assert not strangers[1].done()

    run(scene)


def test_known_callers_do_not_take_places_from_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "MAX_ARRIVING", 2)
    monkeypatch.setattr(receiving, "MAX_ARRIVING_FROM_PEER", 1)

    async def scene(room: Room) -> None:
        callers = [await hang(room, gives_way=False) for _ in range(2)]
        assert await receive(room, parts(b"{}"), gives_way=False) == "busy"
        assert not any(caller.done() for caller in callers)

    run(scene)


def test_no_more_bytes_are_held_than_the_webhooks_share(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unknown(room: Room) -> None:
        strangers = [await hang(room, b"x" * 100) for _ in range(10)]
        assert room._bytes == SHARE
        assert await receive(room, parts(b"{}")) == b"{}"
        assert await strangers[0] == "busy"
        assert room._bytes <= SHARE

    async def known(room: Room) -> None:
        callers = [await hang(room, b"x" * 100, gives_way=False) for _ in range(10)]
        assert await receive(room, parts(b"{}"), gives_way=False) == "busy"
        assert not any(caller.done() for caller in callers)

    run(unknown)
    run(known)


def test_a_body_that_arrived_keeps_its_bytes_until_its_request_is_done_and_is_not_dropped() -> None:
    async def scene(room: Room) -> None:
        with room.arriving("a", SHARE, gives_way=True) as body:
            await body.read(parts(b"x" * SHARE), SHARE)
            with room.worked_on(body):
                assert await receive(room, parts(b"{}")) == "busy"
        assert await receive(room, parts(b"{}")) == b"{}"

    run(scene)


def test_requests_in_work_and_waiting_callers_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "MAX_WORKED_ON", 1)
    monkeypatch.setattr(receiving, "MAX_WAITING", 1)

    async def scene(room: Room) -> None:
        with room.worked_on(), pytest.raises(RefusedError) as refused, room.worked_on():
            pass
        assert refused.value.code == "busy"
        with room.worked_on():
            pass
        with room.waiting() as first, room.waiting() as second:
            assert (first, second) == (True, False)
        with room.waiting() as third:
            assert third

    run(scene)
