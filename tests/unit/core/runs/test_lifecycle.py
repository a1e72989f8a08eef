"""Which attempts before a run may have left something behind."""

from uuid import UUID

import pytest

from workorders.core.runs.lifecycle import PreviousAttempts, split_at_last_known

A, B, C = (UUID(int=number) for number in (3, 2, 1))


@pytest.mark.parametrize(
    ("attempts", "found"),
    [
        ([], PreviousAttempts()),
        ([(A, "lost")], PreviousAttempts((A,))),
        ([(A, "lost"), (B, "lost"), (C, "killed")], PreviousAttempts((A, B), (C,))),
        ([(A, "killed"), (B, "lost")], PreviousAttempts((), (A, B))),
        ([(A, "success"), (B, "lost")], PreviousAttempts((), (A, B))),
    ],
    ids=["none", "lost", "lost behind a known end", "killed behind lost", "a rerun of a success"],
)
def test_only_what_was_lost_right_before_a_run_may_be_taken_up_by_it(
    attempts: list[tuple[UUID, str]], found: PreviousAttempts
) -> None:
    assert split_at_last_known(attempts) == found
