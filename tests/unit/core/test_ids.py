import time
from itertools import islice, pairwise
from uuid import RFC_4122, UUID

from hypothesis import given
from hypothesis import strategies as st

from workorders.core.ids import increasing_ids

LATEST_MILLISECOND = 2**48 - 1


@given(st.integers(0, LATEST_MILLISECOND))
def test_ids_are_uuids_of_version_7_that_carry_their_millisecond(milliseconds: int) -> None:
    for raw in islice(increasing_ids(milliseconds), 5):
        id_ = UUID(bytes=raw)
        assert (id_.version, id_.variant) == (7, RFC_4122)
        assert id_.int >> 80 == milliseconds


@given(st.integers(0, LATEST_MILLISECOND))
def test_every_id_is_greater_than_the_one_before(milliseconds: int) -> None:
    ids = list(islice(increasing_ids(milliseconds), 1000))
    assert all(before < after for before, after in pairwise(ids))


def test_ids_of_a_later_call_are_greater() -> None:
    assert next(increasing_ids(1000)) < next(increasing_ids(1001))


def test_ids_are_greater_than_one_of_a_clock_that_is_ahead() -> None:
    ahead, behind = (UUID(bytes=next(increasing_ids(milliseconds))) for milliseconds in (2000, 1000))
    assert UUID(bytes=next(increasing_ids(1000, after=ahead))).int >> 80 == 2001
    assert UUID(bytes=next(increasing_ids(2000, after=behind))).int >> 80 == 2000


def test_two_calls_in_one_millisecond_share_no_id() -> None:
    ids = [id_ for _ in range(100) for id_ in islice(increasing_ids(1000), 100)]
    assert len(set(ids)) == 10_000


def test_ids_are_of_now_unless_given_a_time() -> None:
    before = time.time_ns() // 1_000_000
    milliseconds = int.from_bytes(next(increasing_ids()), "big") >> 80
    assert before <= milliseconds <= time.time_ns() // 1_000_000
