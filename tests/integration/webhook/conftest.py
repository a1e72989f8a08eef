"""Webhooks that a test defines."""

from collections.abc import Iterator

import pytest

from local_stack.ports import free_port
from local_stack.stack import LocalStack
from support.webhooks import Webhooks


@pytest.fixture
def webhooks(stack: LocalStack) -> Iterator[Webhooks]:
    """Webhooks whose databases are the stack's, and one that does not answer."""
    away = f"postgresql://a:b@127.0.0.1:{free_port()}/a"
    running = Webhooks({"workorders_db": stack.database_url, "away": away})
    with running.client:  # one event loop for all requests, as in a server
        yield running
    running.close()
