"""The oracle of the comparison sees each kind of damage, and nothing else."""

from dataclasses import replace

import pytest

from compare.oracle import Sent, Verdict, judge, read_journal
from faults.contents import ACCEPTED

KEYS = 12
SENT = [Sent(1, number, ACCEPTED, f"{number % 2}", (0, number)) for number in range(6)]
BAD = [Sent(1, 8, "not-an-object", "0"), Sent(1, 23, "number-out-of-range", "1")]
ROWS = [one.message for one in SENT]
CLEAN = Verdict(messages=6, lost=0, failed=0, doubled=0, overtaken=0, strays=0, bad=2, bad_kept=2)


def test_a_row_for_each_good_message_and_every_bad_one_kept_is_clean() -> None:
    assert judge([*SENT, *BAD], ROWS, 2) == CLEAN
    assert CLEAN.is_clean


@pytest.mark.parametrize(
    ("rows", "kept", "seen"),
    [
        (ROWS[1:], 2, {"lost": 1}),
        (ROWS[1:], 3, {"failed": 1}),
        ([*ROWS, ROWS[0], ROWS[0]], 2, {"doubled": 2}),
        ([ROWS[2], ROWS[0], ROWS[1], *ROWS[3:]], 2, {"overtaken": 1}),
        ([ROWS[1], ROWS[0], *ROWS[2:]], 2, {}),
        ([*ROWS, (1, -1)], 2, {"strays": 1}),
        (ROWS, 1, {"bad_kept": 1}),
        ([*ROWS, BAD[1].message], 1, {}),
    ],
    ids=["lost", "failed", "doubled", "overtaken", "other key", "aborted", "bad one gone", "bad one stored"],
)
def test_each_damage_has_a_count(rows: list[tuple[int, int]], kept: int, seen: dict[str, int]) -> None:
    verdict = judge([*SENT, *BAD], rows, kept)
    assert verdict == replace(CLEAN, **seen)
    assert verdict.is_clean == (not seen)


def test_messages_of_a_later_run_come_after_those_of_an_earlier_one_whatever_their_offsets() -> None:
    again = [replace(one, producer=3, position=(1, one.sequence)) for one in SENT]
    rows = [one.message for one in again]
    assert judge([*SENT, *again], [*ROWS, *rows], 0).overtaken == 0
    assert judge([*SENT, *again], [*rows, *ROWS], 0).overtaken == len(ROWS)


def test_the_journal_has_kinds_and_keys() -> None:
    assert read_journal("2 0 0 7\n2 13 1 8\nend\n", KEYS) == [
        Sent(2, 0, ACCEPTED, "0", (1, 7)),
        Sent(2, 13, "not-utf8", "1", (1, 8)),
    ]


def test_a_journal_without_its_end_gives_no_verdict() -> None:
    with pytest.raises(AssertionError, match="did not end well"):
        read_journal("2 0 0 7\n", KEYS)
