"""Webhooks with their own folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from local_stack.ports import free_port
from local_stack.stack import LocalStack
from support.webhooks import Webhooks


@pytest.fixture
def webhooks(stack: LocalStack, tmp_path: Path) -> Iterator[Webhooks]:
    """Webhooks whose databases are the stack's, and one that does not answer."""
    away = f"postgresql://a:b@127.0.0.1:{free_port()}/a"
    running = Webhooks(tmp_path, {"workorders_db": stack.database_url, "away": away})
    with running.client:  # one event loop for all requests, as in a server
        yield running
    running.close()
