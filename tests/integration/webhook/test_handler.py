"""The connections of the webhooks, while a proxy before the database hangs."""

import time

import psycopg
import pytest

from local_stack.stack import LocalStack
from support.proxies import HangingProxy
from support.webhooks import close_idle
from workorders.webhook import handler
from workorders.webhook.handler import Database

pytestmark = pytest.mark.integration


def test_no_thread_waits_longer_than_its_limit_for_a_database_that_does_not_answer(
    stack: LocalStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    with HangingProxy(stack.database_url) as proxy:
        own = Database(lambda: proxy.url)
        with own.connection() as first, own.connection() as second:
            assert [c.execute("SELECT 1").fetchone() for c in (first, second)] == [(1,), (1,)]
        assert len(own._idle) == 2
        # Not before, because a busy machine may need seconds for a connection.
        monkeypatch.setattr(handler, "_CONNECT_SECONDS", 2)
        monkeypatch.setattr(handler, "_MAX_ANSWER_SECONDS", 3)

        def ask_while_it_hangs() -> None:
            with own.connection() as connection:
                proxy.hang()
                connection.execute("SELECT 2")

        begun = time.monotonic()
        with pytest.raises(psycopg.OperationalError, match="did not answer for 3 s"):
            ask_while_it_hangs()
        # The other one is found to be dead, and a new one gets no answer either.
        with pytest.raises(psycopg.OperationalError), own.connection():
            pytest.fail("a connection was lent")
        assert time.monotonic() - begun < 30
        close_idle(own)
