from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.work_orders import accepted, accepted_range
from workorders.core.creation.work_orders import Chunks
from workorders.core.items import Item

MANY_BYTES = 10**9


@given(items=st.integers(0, 40), most=st.integers(1, 12), readings=st.integers(0, 3))
def test_every_item_is_in_one_chunk_in_order_however_much_is_read_ahead(items: int, most: int, readings: int) -> None:
    given_items = accepted_range("s", 0, items)
    chunks = []
    source = Chunks(iter(given_items), most, MANY_BYTES)
    for chunk in source:
        chunks.append(chunk)
        for _ in range(readings):
            list(source.prefetch())
    assert [item for chunk in chunks for item in chunk] == given_items
    assert all(len(chunk) == most for chunk in chunks[:-1])
    assert all(chunks)


def test_two_readings_ahead_take_a_whole_chunk_and_a_third_takes_nothing() -> None:
    taken: list[int] = []
    source = Chunks(_noted(taken, 9000), 3000, MANY_BYTES)
    next(iter(source))
    counts = []
    for _ in range(3):
        list(source.prefetch())
        counts.append(len(taken))
    assert counts == [4500, 6000, 6000]


def test_reading_ahead_continues_in_small_steps() -> None:
    taken: list[int] = []
    source = Chunks(_noted(taken, 9000), 3000, MANY_BYTES)
    next(iter(source))
    steps = [len(taken) for _ in source.prefetch()]
    assert steps == [3500, 4000, 4500]


@pytest.mark.parametrize("ahead", [True, False])
def test_a_chunk_ends_with_the_item_that_fills_its_bytes(ahead: bool) -> None:
    items = [accepted("s", position, b"x" * 100) for position in range(6)]
    source = Chunks(iter(items), 1000, 2 * 100 + 1)
    sizes = []
    for chunk in source:
        sizes.append(len(chunk))
        for _ in range(2 if ahead else 0):
            list(source.prefetch())
    assert sizes == [2, 2, 2]


def test_what_the_source_raises_while_it_is_read_ahead_is_raised_with_the_next_chunk() -> None:
    def items() -> Iterator[Item]:
        yield from accepted_range("s", 0, 5)
        raise ValueError("the source broke")

    source = Chunks(items(), 4, MANY_BYTES)
    chunks = iter(source)
    assert len(next(chunks)) == 4
    list(source.prefetch())
    with pytest.raises(ValueError, match="the source broke"):
        next(chunks)


def test_a_source_that_has_ended_is_not_asked_again() -> None:
    asked = 0

    class Source:
        def __iter__(self) -> Iterator[Item]:
            return self

        def __next__(self) -> Item:
            nonlocal asked
            asked += 1
            if asked == 1:
                return accepted("s", 0)
            raise StopIteration

    source = Chunks(Source(), 4, MANY_BYTES)
    for _ in source:
        list(source.prefetch())
    assert asked == 2


def _noted(taken: list[int], count: int) -> Iterator[Item]:
    for position in range(count):
        taken.append(position)
        yield accepted("s", position, b"{}")
