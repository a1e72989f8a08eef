"""Connections of programs that write to the outbox."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from local_stack.stack import LocalStack
from workorders.core.postgres.connection import Connection, connect


@pytest.fixture
def writer(stack: LocalStack) -> Iterator[Callable[[], Connection]]:
    """Opens connections, each a separate program; what they leave open is rolled back."""
    with ExitStack() as open_backlog:

        def open_() -> Connection:
            connection = connect(stack.database_url, application_name="test writer")
            open_backlog.callback(connection.close)
            return connection

        yield open_
