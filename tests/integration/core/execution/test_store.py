"""The database as a group uses it, while it fails over."""

from uuid import uuid4

import psycopg
import pytest

from local_stack.stack import LocalStack
from workorders.core import runs
from workorders.core.execution import store
from workorders.core.execution.store import Store

pytestmark = pytest.mark.integration

ONLY_READING = "SET default_transaction_read_only = on"


@pytest.fixture
def said() -> list[str]:
    """What the store said."""
    return []


@pytest.fixture
def asked(stack: LocalStack, said: list[str], monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store that tries twice more, and at once."""
    monkeypatch.setattr(store, "_AGAIN_SECONDS", 0.0)
    return Store(stack.database_url, uuid4(), enqueue=lambda *_: None, may_go_on=lambda: len(said) < 2, say=said.append)


def test_a_server_that_takes_no_writes_is_left_for_a_new_connection(asked: Store, said: list[str]) -> None:
    asked.ask(lambda connection: connection.execute(ONLY_READING))
    assert asked.ask(lambda connection: runs.heartbeat(connection, uuid4())) == 0
    assert [line.startswith("The database failed and is asked again: cannot execute UPDATE") for line in said] == [True]
    assert asked.in_doubt


def test_a_server_that_takes_no_writes_for_too_long_ends_it(asked: Store, said: list[str], stack: LocalStack) -> None:
    asked._url = psycopg.conninfo.make_conninfo(stack.database_url, options="-c default_transaction_read_only=on")
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        asked.ask(lambda connection: runs.heartbeat(connection, uuid4()))
    assert len(said) == 2
