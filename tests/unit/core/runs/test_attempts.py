"""Which attempts before a run may have left something behind."""

from uuid import UUID

import pytest

from workorders.core.runs.attempts import Earlier, divided

A, B, C = (UUID(int=number) for number in (3, 2, 1))


@pytest.mark.parametrize(
    ("attempts", "found"),
    [
        ([], Earlier()),
        ([(A, "lost")], Earlier((A,))),
        ([(A, "lost"), (B, "lost"), (C, "killed")], Earlier((A, B), (C,))),
        ([(A, "killed"), (B, "lost")], Earlier((), (A, B))),
        ([(A, "success"), (B, "lost")], Earlier((), (A, B))),
    ],
    ids=["none", "lost", "lost behind a known end", "killed behind lost", "a rerun of a success"],
)
def test_only_what_was_lost_right_before_a_run_may_be_taken_up_by_it(
    attempts: list[tuple[UUID, str]], found: Earlier
) -> None:
    assert divided(attempts) == found
