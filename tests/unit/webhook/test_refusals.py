import asyncio
import logging

import pytest

from workorders.webhook import refusals
from workorders.webhook.refusals import SUM_SECONDS, RefusalLog, RefusedError, printable

REFUSAL = RefusedError(401, "not-authenticated", "Nothing was created: the key is wrong.")


def lines(caplog: pytest.LogCaptureFixture, *scene: tuple[float, str, str]) -> list[str]:
    """Return what is logged of refusals at some times, of some webhooks and addresses."""
    now = 0.0

    async def play() -> None:
        nonlocal now
        log = RefusalLog(lambda: now)
        for at, webhook, peer in scene:
            now = at
            log.add(webhook, "/shop", peer, REFUSAL)
        now += SUM_SECONDS
        log.flush()
        assert not log._sums

    with caplog.at_level(logging.WARNING):
        asyncio.run(play())
    return [record.getMessage() for record in caplog.records]


def test_the_first_refusal_of_a_kind_is_logged_at_once_and_the_others_are_summed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = lines(caplog, *[(0, "shop", "192.0.2.1")] * 400, (1, "shop", "192.0.2.2"), (2, "other", "192.0.2.1"))
    assert len(found) == 4
    assert found[0] == (
        "Webhook path '/shop': a request of '192.0.2.1' was refused with 401 (not-authenticated): "
        "'Nothing was created: the key is wrong.'"
    )
    assert found[3] == ("Webhook shop: 399 more requests of '192.0.2.1' were refused within 62 s (not-authenticated).")


def test_the_sum_is_logged_when_the_minute_is_over_without_another_request(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals, "SUM_SECONDS", 0.05)

    async def play() -> None:
        log = RefusalLog(asyncio.get_running_loop().time)
        for _ in range(3):
            log.add("shop", "/shop", "192.0.2.1", REFUSAL)
        async with asyncio.timeout(30):
            while log._sums:
                await asyncio.sleep(0.01)

    with caplog.at_level(logging.WARNING):
        asyncio.run(play())
    assert "2 more requests" in caplog.records[-1].getMessage()


def test_a_flood_from_many_addresses_is_summed_together(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals, "MAX_KINDS", 10)
    found = lines(caplog, *[(0, "shop", f"192.0.2.{number}") for number in range(200)])
    assert len(found) == 12
    assert "189 more requests of 'other addresses'" in found[-1]


def test_nothing_that_a_stranger_sends_ends_a_line_or_steers_a_terminal() -> None:
    found = printable("/x\r\n2026 ERROR forged\x1b[31m\u2028\u202e" + "y" * 10_000)
    assert found.isprintable()
    assert found.startswith("'/x\\r\\n2026 ERROR forged\\x1b[31m")
    assert len(found) < 300
