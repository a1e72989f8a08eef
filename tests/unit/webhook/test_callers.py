import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from workorders.webhook.callers import FAILURES_AT_ONCE, TRUST_SECONDS, Bucket, Callers, network_of
from workorders.webhook.definition import WebhookTriggerDefinition
from workorders.webhook.method import Secret
from workorders.webhook.refusals import RefusedError
from workorders.webhook.requests import Received
from workorders.webhook.secrets import Secrets
from workorders.webhook.threads import Threads


class Door:
    """A webhook's check of its callers, with a clock."""

    def __init__(self, **authentication: Any) -> None:
        self.now = 1000.0
        self.asked = 0
        self.passwords = {"c": "right"}
        self.definition = WebhookTriggerDefinition.model_validate(
            {"name": "shop", "workflow": "ship", "authentication": {"connection": "c", **authentication}}
        )
        self.callers = Callers(Secrets(self._ask, lambda: self.now), Threads(), lambda: self.now)

    async def _ask(self, connection_id: str) -> Secret:
        self.asked += 1
        return Secret("", self.passwords[connection_id])

    def knock(self, key: str | None, address: str = "192.0.2.1") -> str | None:
        """Return the word of the refusal; None if the caller may come in."""
        headers = [] if key is None else [("x-api-key", key)]
        received = Received("/shop", headers, address, b"", datetime.now(UTC))
        try:
            asyncio.run(self.callers.check_headers(self.definition, received))
        except RefusedError as refusal:
            return refusal.code
        return None


def test_an_address_that_guesses_is_told_to_wait_and_others_are_not() -> None:
    door = Door(type="api_key")
    guesses = [door.knock(f"guess {number}") for number in range(FAILURES_AT_ONCE + 10)]
    assert guesses[: FAILURES_AT_ONCE + 1] == ["not-authenticated"] * (FAILURES_AT_ONCE + 1)
    assert set(guesses[FAILURES_AT_ONCE + 1 :]) == {"too-many-failures"}
    assert door.knock("right") == "too-many-failures"
    assert door.knock("right", "192.0.2.2") is None
    door.now += 1
    assert [door.knock("wrong") for _ in range(3)] == ["not-authenticated"] * 2 + ["too-many-failures"]
    door.now += 1
    assert door.knock("right") is None


def test_a_stranger_at_the_address_of_valid_callers_does_not_lock_them_out() -> None:
    door = Door(type="api_key")
    assert door.knock("right") is None
    assert {door.knock("wrong") for _ in range(3 * FAILURES_AT_ONCE)} == {"not-authenticated"}
    assert door.knock("right") is None
    door.now += TRUST_SECONDS
    assert [door.knock("wrong") for _ in range(2 * FAILURES_AT_ONCE)][-1] == "too-many-failures"


def test_a_caller_without_credentials_is_refused_without_a_look_up_and_locks_no_caller_out() -> None:
    door = Door(type="api_key")
    assert {door.knock(None) for _ in range(3 * FAILURES_AT_ONCE)} == {"not-authenticated"}
    assert door.asked == 0
    assert door.knock("right") is None


def test_two_secrets_are_accepted_while_callers_change_to_the_new_one() -> None:
    door = Door(type="api_key", previous_connection="before")
    door.passwords["before"] = "old"
    assert [door.knock(key) for key in ("right", "old", "wrong")] == [None, None, "not-authenticated"]
    assert Door(type="api_key").knock("old") == "not-authenticated"


@pytest.mark.parametrize(("away", "kept"), [("c", "old"), ("before", "right")])
def test_a_caller_is_not_called_wrong_while_the_secret_that_it_may_have_is_unavailable(away: str, kept: str) -> None:
    door = Door(type="api_key", previous_connection="before")
    door.passwords["before"] = "old"
    del door.passwords[away]
    other = "right" if kept == "old" else "old"
    assert [door.knock(key) for key in (kept, other)] == [None, "cannot-authenticate"]


def test_no_more_addresses_are_remembered_than_memory_should_hold() -> None:
    door = Door(type="api_key")

    async def knock_from_many() -> None:
        for number in range(5000):
            received = Received("/shop", [("x-api-key", "wrong")], f"10.0.{number // 250}.{number % 250}", b"", NOW)
            with pytest.raises(RefusedError):
                await door.callers.check_headers(door.definition, received)

    asyncio.run(knock_from_many())
    assert len(door.callers._peers) == 4096


NOW = datetime.now(UTC)


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("testclient", "testclient"),
        (None, "unknown"),
    ],
)
def test_a_network_of_ipv6_counts_as_one_address(address: str | None, counted: str) -> None:
    assert network_of(address) == counted


def test_a_burst_passes_then_as_many_as_time_lets() -> None:
    bucket = Bucket(2, 3)
    assert [bucket.take(0) for _ in range(4)] == [0, 0, 0, 1]
    assert [bucket.take(0.5) for _ in range(2)] == [0, 1]
    assert [bucket.take(100) for _ in range(4)] == [0, 0, 0, 1]


def test_a_slow_rate_tells_how_long_to_wait() -> None:
    bucket = Bucket(0.1, 1)
    assert [bucket.take(0), bucket.take(0), bucket.take(4)] == [0, 10, 6]
    assert bucket.take(10) == 0
