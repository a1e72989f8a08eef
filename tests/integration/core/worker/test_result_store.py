"""The database as a worker uses it, while it fails."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from local_stack.ports import free_port
from local_stack.stack import LocalStack
from support.eventually import eventually
from workorders.core.postgres.connection import Connection
from workorders.core.worker import result_store
from workorders.core.worker.result_store import ResultStore

pytestmark = pytest.mark.integration

ONLY_READING = "SET default_transaction_read_only = on"
WRITE = "DELETE FROM workorders.workers WHERE false"
Make = Callable[..., ResultStore]


@pytest.fixture
def logged() -> list[str]:
    """What the store logged."""
    return []


@pytest.fixture
def make(stack: LocalStack, logged: list[str]) -> Make:
    """Makes stores, of which each asks again as long as it is not told to stop."""

    def made(url: str = stack.database_url, **given: Any) -> ResultStore:
        named = {"enqueue": lambda *_: None, "may_continue": lambda: True, "stop": threading.Event(), **given}
        return ResultStore(url, uuid4(), log=logged.append, **named)

    return made


@pytest.fixture
def asked(make: Make, logged: list[str], monkeypatch: pytest.MonkeyPatch) -> ResultStore:
    """A store that tries twice more, and at once."""
    monkeypatch.setattr(result_store, "_MAX_DELAY_SECONDS", 0)
    return make(may_continue=lambda: len(logged) < 2)


@pytest.fixture
def unavailable() -> str:
    """The URL of a database that does not exist."""
    return f"postgresql://a:b@127.0.0.1:{free_port()}/a"


def test_a_server_that_takes_no_writes_is_left_for_a_new_connection(asked: ResultStore, logged: list[str]) -> None:
    asked.run_in_transaction(lambda connection: connection.execute(ONLY_READING))
    asked.run_in_transaction(lambda connection: connection.execute(WRITE))
    assert [
        line.startswith("The database failed and is tried again in 0 s: cannot execute DELETE") for line in logged
    ] == [True]
    assert asked.must_reconcile


def test_a_server_that_takes_no_writes_for_too_long_ends_it(
    asked: ResultStore, logged: list[str], stack: LocalStack
) -> None:
    asked._url = psycopg.conninfo.make_conninfo(stack.database_url, options="-c default_transaction_read_only=on")
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        asked.run_in_transaction(lambda connection: connection.execute(WRITE))
    assert len(logged) == 2


@pytest.mark.parametrize(
    ("question", "error"),
    [
        ("SELECT repeat('x', 2000000000)", psycopg.errors.ProgramLimitExceeded),
        ("SET LOCAL statement_timeout = 50; SELECT pg_sleep(60)", psycopg.errors.QueryCanceled),
        ("SELECT FROM workorders.nowhere", psycopg.errors.UndefinedTable),
    ],
)
def test_a_transaction_that_fails_at_each_try_is_not_tried_again(
    make: Make, logged: list[str], question: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        make().run_in_transaction(lambda connection: connection.execute(question))
    assert logged == []


def test_a_wrong_password_is_not_tried_again(make: Make, logged: list[str], stack: LocalStack) -> None:
    wrong = make(psycopg.conninfo.make_conninfo(stack.database_url, password="wrong"))
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        wrong.run_in_transaction(lambda connection: connection.execute("SELECT 1"))
    assert logged == []


def test_an_outage_is_retried_later_and_later_until_it_lasts_too_long(
    make: Make, logged: list[str], unavailable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            now[0] += timeout or 0
            assert now[0] < 2 * result_store.MAX_OUTAGE_SECONDS
            return False

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with pytest.raises(psycopg.OperationalError):
        make(unavailable, stop=Stop()).run_in_transaction(lambda connection: connection.execute("SELECT 1"))
    assert [line.split(" in ")[1].split(":")[0] for line in logged[:5]] == ["1 s", "2 s", "4 s", "8 s", "8 s"]
    assert result_store.MAX_OUTAGE_SECONDS - 8 < now[0] <= result_store.MAX_OUTAGE_SECONDS


def test_a_stop_ends_the_wait_for_the_next_try_at_once(
    make: Make, logged: list[str], unavailable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_store, "delay_seconds", lambda _: 200)
    monkeypatch.setattr(result_store, "_MAX_DELAY_SECONDS", 200)
    stop = threading.Event()
    store = make(unavailable, stop=stop)
    with ThreadPoolExecutor() as threads:
        ended = threads.submit(store.run_in_transaction, lambda connection: connection.execute("SELECT 1"))
        eventually(lambda: logged, seconds=30, what="the first failure")
        stop.set()
        assert isinstance(ended.exception(30), psycopg.OperationalError)
    assert len(logged) == 1


def test_after_a_stop_the_transaction_is_tried_once_more_so_that_no_end_is_lost(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    class StoppedMeanwhile(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            self.set()
            return True

    tries = []

    def question(connection: Connection) -> str:
        tries.append(connection)
        if len(tries) == 1:
            raise psycopg.errors.AdminShutdown("terminating connection due to administrator command")
        return "answered"

    assert make(stop=StoppedMeanwhile()).run_in_transaction(question) == "answered"
