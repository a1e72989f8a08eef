import asyncio
import logging
from datetime import UTC, datetime
from typing import Any

import pytest

from workorders.webhook.authentication import Secret
from workorders.webhook.callers import FAILURE_SECONDS, KEEP_SECONDS, STALE_SECONDS, Callers
from workorders.webhook.definition import WebhookTriggerDefinition
from workorders.webhook.refusals import RefusedError
from workorders.webhook.requests import Received


class Door:
    """A webhook's check of its callers, with a clock."""

    def __init__(self, **authentication: Any) -> None:
        self.now = 1000.0
        self.asked = 0
        self.passwords = {"c": "right"}
        self.definition = WebhookTriggerDefinition.model_validate(
            {
                "name": "shop",
                "workflow": "ship",
                "authentication": {"type": "api_key", "connection": "c", **authentication},
            }
        )
        self.callers = Callers(self._ask, lambda: self.now)

    def _ask(self, connection_id: str) -> Secret:
        self.asked += 1
        if connection_id not in self.passwords:
            raise ConnectionError("hunter2")
        return Secret("", self.passwords[connection_id])

    def knock(self, key: str | None) -> str | None:
        """Return the word of the refusal; None if the caller may come in."""
        headers = [] if key is None else [("x-api-key", key)]
        received = Received("/shop", headers, "192.0.2.1", b"", datetime.now(UTC))
        try:
            asyncio.run(self.callers.check_headers(self.definition, received))
        except RefusedError as refusal:
            return refusal.code
        return None


def test_a_caller_without_credentials_is_refused_without_a_look_up() -> None:
    door = Door()
    assert {door.knock(None) for _ in range(3)} == {"not-authenticated"}
    assert door.asked == 0
    assert door.knock("right") is None


def test_strangers_who_guess_cause_one_look_up_and_lock_no_caller_out() -> None:
    door = Door()
    assert {door.knock(f"guess {number}") for number in range(60)} == {"not-authenticated"}
    assert (door.knock("right"), door.asked) == (None, 1)


def test_two_secrets_are_accepted_while_callers_change_to_the_new_one() -> None:
    door = Door(previous_connection="before")
    door.passwords["before"] = "old"
    assert [door.knock(key) for key in ("right", "old", "wrong")] == [None, None, "not-authenticated"]
    assert Door().knock("old") == "not-authenticated"


@pytest.mark.parametrize(("away", "kept"), [("c", "old"), ("before", "right")])
def test_a_caller_is_not_called_wrong_while_the_secret_that_it_may_have_is_unavailable(away: str, kept: str) -> None:
    door = Door(previous_connection="before")
    door.passwords["before"] = "old"
    del door.passwords[away]
    other = "right" if kept == "old" else "old"
    assert [door.knock(key) for key in (kept, other)] == [None, "cannot-authenticate"]


def test_a_look_up_that_fails_is_logged_once_without_its_text_and_the_last_secret_counts_for_a_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    door = Door()
    assert door.knock("right") is None
    del door.passwords["c"]
    with caplog.at_level(logging.ERROR):
        door.now += KEEP_SECONDS
        assert {door.knock("right") for _ in range(20)} == {None}
    assert (door.asked, len(caplog.records), "hunter2" in caplog.text) == (2, 1, False)
    door.now += STALE_SECONDS
    assert door.knock("right") == "cannot-authenticate"


def test_a_password_that_was_removed_admits_no_caller() -> None:
    door = Door()
    assert door.knock("right") is None
    door.passwords["c"] = ""
    door.now += KEEP_SECONDS
    assert {door.knock(key) for key in ("right", "")} == {"cannot-authenticate"}
    del door.passwords["c"]
    door.now += KEEP_SECONDS + FAILURE_SECONDS
    assert {door.knock(key) for key in ("right", "")} == {"cannot-authenticate"}
