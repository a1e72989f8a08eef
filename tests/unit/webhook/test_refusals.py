import asyncio
import logging

import pytest

from workorders.webhook import refusals
from workorders.webhook.refusals import RefusalLog, RefusedError

REFUSAL = RefusedError(401, "not-authenticated", "Nothing was created: the key is wrong.")


def test_the_first_refusal_of_a_kind_is_logged_at_once_and_the_others_are_summed(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals, "SUM_SECONDS", 0.05)

    async def play() -> None:
        log = RefusalLog()
        for number in range(400):
            log.add("shop", "/shop", f"192.0.2.{number % 250}", REFUSAL)
        log.add("other", "/other", None, REFUSAL)
        assert len(caplog.records) == 2
        async with asyncio.timeout(30):
            while log._suppressed:
                await asyncio.sleep(0.01)
        log.add("shop", "/shop", "192.0.2.1", REFUSAL)

    with caplog.at_level(logging.WARNING):
        asyncio.run(play())
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 4
    assert lines[0] == (
        "Webhook path '/shop': a request of '192.0.2.0' was refused with 401 (not-authenticated): "
        "'Nothing was created: the key is wrong.'"
    )
    assert lines[2] == "Webhook shop: 399 more requests were refused within 0 s (not-authenticated)."
