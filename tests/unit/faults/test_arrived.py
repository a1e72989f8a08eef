"""The counts of what arrived."""

import pytest

from faults.arrived import Arrived, Message, compare

_SENT = {(1, number): ("key", number) for number in range(4)}
_FIRST, _SECOND, _THIRD, _FOURTH = _SENT


@pytest.mark.parametrize(
    ("found", "counts"),
    [
        ([_FIRST, _SECOND, _THIRD, _FOURTH], Arrived(4, 0, 0, 0, 0)),
        ([_FIRST, _SECOND, _FOURTH], Arrived(3, 1, 0, 0, 0)),
        ([_FIRST, _SECOND, _THIRD, _FOURTH, _FIRST], Arrived(5, 0, 1, 0, 0)),
        ([_FIRST, _SECOND, _THIRD, _FOURTH, (2, 7)], Arrived(5, 0, 0, 1, 0)),
        ([_FIRST, _THIRD, _SECOND, _FOURTH], Arrived(4, 0, 0, 0, 1)),
    ],
    ids=["whole", "lost", "doubled", "strange", "overtaken"],
)
def test_what_arrived_is_compared_with_what_was_sent(found: list[Message], counts: Arrived) -> None:
    assert compare(found, _SENT) == counts
    assert counts.kept == (found == list(_SENT))


def test_messages_of_different_keys_have_no_order() -> None:
    sent = {(1, 0): ("a", 0), (1, 1): ("b", 1)}
    assert compare([(1, 1), (1, 0)], sent).kept
