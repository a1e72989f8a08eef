"""Which numbered work orders are let in, parked or turned away: any order of arrival, any batches."""

import random
from collections import Counter

import pytest

from workorders.core.admission.duplicates import DUPLICATE
from workorders.core.admission.limits import RUN_LIMIT
from workorders.core.admission.sequences import LATE, Decision, Numbered, SequenceState, decide

KEY = b"k" * 16


def id_of(place: int) -> bytes:
    return place.to_bytes(16, "big")


def entries(*numbers: int, start: int = 100) -> list[Numbered]:
    return [Numbered(KEY, number, id_of(place)) for place, number in enumerate(numbers, start)]


def refused(verdict: Decision) -> list[tuple[int, str]]:
    return [(int.from_bytes(part.id, "big"), part.code) for part in verdict.rejected]


def test_the_next_number_is_let_in_and_moves_the_mark() -> None:
    state = SequenceState(0)
    verdict = decide(entries(1, 2, 3), {KEY: state})
    assert (verdict.admitted, state.high_water_mark, verdict.rejected, verdict.parked) == (3, 3, [], [])


def test_a_number_at_or_behind_the_mark_is_a_duplicate() -> None:
    verdict = decide(entries(3, 5), {KEY: SequenceState(5)})
    assert refused(verdict) == [(100, DUPLICATE), (101, DUPLICATE)]
    assert "number 3 of its sequence is not above 5" in verdict.rejected[0].detail


def test_a_number_beyond_a_gap_is_parked() -> None:
    state = SequenceState(5)
    verdict = decide(entries(7, 9), {KEY: state})
    assert verdict.parked == [Numbered(KEY, 7, id_of(100)), Numbered(KEY, 9, id_of(101))]
    assert (verdict.admitted, state.high_water_mark) == (0, 5)


def test_the_number_that_fills_the_gap_releases_what_follows_up_to_the_next_gap() -> None:
    state = SequenceState(5, {7: id_of(1), 8: id_of(2), 10: id_of(3)})
    verdict = decide(entries(6), {KEY: state})
    assert [part.number for part in verdict.admitted_in_order] == [6, 7, 8]
    assert verdict.released == [Numbered(KEY, 7, id_of(1)), Numbered(KEY, 8, id_of(2))]
    assert (state.high_water_mark, state.parked) == (8, {10: id_of(3)})


def test_what_one_call_parks_and_lets_in_again_was_never_parked() -> None:
    verdict = decide(entries(3, 2, 1), {KEY: SequenceState(0)})
    assert (verdict.parked, verdict.released) == ([], [])


def test_a_sequence_without_a_mark_begins_with_the_first_to_arrive() -> None:
    state = SequenceState(None)
    verdict = decide(entries(40, 42, 39, 41), {KEY: state})
    assert state.high_water_mark == 42
    assert refused(verdict) == [(102, DUPLICATE)]


def test_a_number_in_a_gap_that_was_given_up_is_late_and_no_duplicate() -> None:
    verdict = decide(entries(4, 6, 7), {KEY: SequenceState(9, skipped=[(4, 6)])})
    assert refused(verdict) == [(100, DUPLICATE), (101, LATE), (102, DUPLICATE)]


def test_what_finds_no_room_leaves_no_trace_in_its_sequence() -> None:
    state = SequenceState(0)
    verdict = decide(entries(1, 2, 3), {KEY: state}, capacity=1)
    assert refused(verdict) == [(101, RUN_LIMIT)]
    assert [part.number for part in verdict.parked] == [3]
    assert (verdict.admitted, state.high_water_mark) == (1, 1)


def test_duplicates_and_parked_ones_take_no_room() -> None:
    verdict = decide(entries(1, 6, 3, 4), {KEY: SequenceState(2)}, capacity=2)
    assert refused(verdict) == [(100, DUPLICATE)]
    assert verdict.admitted == 2


@pytest.mark.parametrize("seed", range(40))
def test_whatever_the_order_and_the_batches_the_same_numbers_are_let_in_in_order(seed: int) -> None:
    chance = random.Random(seed)
    last = {key * 16: chance.randint(0, 12) for key in (b"a", b"b", b"c")}
    missing = {(key, number) for key, end in last.items() for number in range(1, end + 1) if chance.random() < 0.05}
    coming = [
        (key, number) for key, end in last.items() for number in range(1, end + 1) if (key, number) not in missing
    ]
    coming += chance.choices(coming, k=len(coming) // 3) if coming else []
    chance.shuffle(coming)
    states = {key: SequenceState(0) for key in last}
    let_in: list[tuple[bytes, int]] = []
    parked: dict[bytes, tuple[bytes, int]] = {}
    became: Counter[str] = Counter()
    place = 0
    while place < len(coming):
        size = chance.randint(1, 7)
        batch = [Numbered(*coming[i], id_of(i)) for i in range(place, min(place + size, len(coming)))]
        verdict = decide(batch, states)
        parked |= {part.id: (part.sequence, part.number) for part in verdict.parked}
        assert all(parked.pop(part.id) == (part.sequence, part.number) for part in verdict.released)
        became["turned away"] += len(verdict.rejected)
        became["let in"] += verdict.admitted + len(verdict.released)
        place += size
    let_in = [(key, number) for key, state in states.items() for number in range(1, (state.high_water_mark or 0) + 1)]
    for key, end in last.items():
        first_gap = min((number for of, number in missing if of == key), default=end + 1)
        assert states[key].high_water_mark == first_gap - 1
        assert set(states[key].parked) == {n for of, n in coming if of == key and n > first_gap}
    assert became["let in"] == len(let_in)
    assert became["turned away"] == len(coming) - len(set(coming))
