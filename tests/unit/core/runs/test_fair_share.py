from typing import Any

import pytest

from workorders.core.runs.fair_share import PATIENCE_SECONDS, Request, first_due


def request(name: str = "ship", waited_seconds: float = 60.0, **fields: Any) -> Request:
    return Request(1, name, waited_seconds, **fields)


@pytest.mark.parametrize(
    ("waited", "due"), [(0.0, False), (PATIENCE_SECONDS - 0.1, False), (PATIENCE_SECONDS, True), (1e9, True)]
)
def test_a_turn_ends_for_a_request_once_a_free_worker_would_have_begun(waited: float, due: bool) -> None:
    assert request(waited_seconds=waited).due is due


@pytest.mark.parametrize(
    ("given", "pause"), [(1, 30.0), (2, 60.0), (3, 120.0), (5, 480.0), (6, 600.0), (7, 600.0), (2_000_000, 600.0)]
)
def test_a_request_that_stays_unanswered_is_given_further_turns_ever_more_seldom(given: int, pause: float) -> None:
    assert not request(waited_seconds=1e9, given=given, given_seconds_ago=pause - 0.1).due
    assert request(waited_seconds=1e9, given=given, given_seconds_ago=pause).due
    assert not request(waited_seconds=PATIENCE_SECONDS - 0.1, given=given, given_seconds_ago=pause).due


def test_the_oldest_request_that_is_due_and_has_something_to_claim_is_the_next() -> None:
    requests = [
        request("young", 11.0),
        request("old", 40.0),
        request("nothing to claim", 50.0),
        request("just given one", 90.0, given=1, given_seconds_ago=5.0),
    ]
    found = first_due(requests, frozenset({"young", "old", "just given one"}))
    assert found is not None
    assert found.name == "old"
    assert first_due(requests, frozenset()) is None
    assert first_due([], frozenset({"young"})) is None
