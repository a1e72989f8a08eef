import time

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from local_stack.ports import free_port
from local_stack.postgres import SUPERUSER
from local_stack.stack import LocalStack
from support.proxies import HangingProxy
from workorders.core.postgres.connection import Connection, connect, is_outage

pytestmark = pytest.mark.integration

A_MINUTE = 60


def shown(connection: Connection, setting: str) -> str:
    row = connection.execute("SELECT current_setting(%s)", (setting,)).fetchone()
    assert row is not None
    return str(row[0])


def test_a_session_has_limits_that_end_a_dead_client_and_speaks_utc(stack: LocalStack) -> None:
    with connect(stack.database_url, application_name="workorders test") as connection:
        assert shown(connection, "lock_timeout") == "30s"
        assert shown(connection, "statement_timeout") == "5min"
        assert shown(connection, "idle_in_transaction_session_timeout") == "5min"
        assert shown(connection, "timezone").upper() == "UTC"
        assert shown(connection, "client_encoding") == "UTF8"
        assert shown(connection, "application_name") == "workorders test"


def test_the_server_finds_out_within_a_minute_that_a_clients_machine_is_gone(stack: LocalStack) -> None:
    with connect(stack.database_url) as connection:
        idle, interval, count = (
            int(shown(connection, f"tcp_keepalives_{name}")) for name in ("idle", "interval", "count")
        )
        # What the socket really has: a Unix socket, or a system that lacks one of them, shows 0.
        assert min(idle, interval, count) > 0
        assert idle + interval * count <= A_MINUTE
        assert 0 < int(shown(connection, "tcp_user_timeout")) <= A_MINUTE * 1000


def test_a_lock_is_not_waited_for_without_end(stack: LocalStack, connection: Connection) -> None:
    connection.execute("SELECT pg_advisory_xact_lock(4711)")
    with (
        connect(f"{stack.database_url}?options=-c%20lock_timeout%3D50ms") as own,
        pytest.raises(psycopg.errors.LockNotAvailable),
    ):
        own.execute("SELECT pg_advisory_xact_lock(4711)")


def test_an_unavailable_server_is_reported_at_once_and_without_the_password() -> None:
    begin = time.monotonic()
    with pytest.raises(psycopg.OperationalError) as raised:
        connect(f"postgresql://someone:hunter2@127.0.0.1:{free_port()}/nowhere")
    assert time.monotonic() - begin < 10
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("wrong", [{"password": "wrong"}, {"user": "nobody"}, {"dbname": "nowhere"}])
def test_a_login_that_a_real_server_refuses_is_no_outage(stack: LocalStack, wrong: dict[str, str]) -> None:
    with pytest.raises(psycopg.OperationalError) as raised:
        connect(make_conninfo(stack.postgres.url(SUPERUSER), **wrong))
    assert not is_outage(raised.value)


def test_a_session_that_a_real_server_ended_is_an_outage(stack: LocalStack, connection: Connection) -> None:
    with connect(stack.database_url, autocommit=True) as own:
        connection.execute("SELECT pg_terminate_backend(%s, 60000)", (own.info.backend_pid,))
        for _ in range(2):  # the server's own words, and then psycopg's
            with pytest.raises(psycopg.OperationalError) as raised:
                own.execute("SELECT 1")
            assert is_outage(raised.value)


def test_a_statement_that_takes_too_long_or_makes_too_much_is_no_outage(connection: Connection) -> None:
    connection.execute("SET LOCAL statement_timeout = 50")
    with pytest.raises(psycopg.errors.QueryCanceled) as canceled:
        connection.execute("SELECT pg_sleep(60)")
    connection.rollback()
    with pytest.raises(psycopg.errors.ProgramLimitExceeded) as exceeded:
        connection.execute("SELECT repeat('x', 2000000000)")
    assert not is_outage(canceled.value)
    assert not is_outage(exceeded.value)


def test_no_statement_is_prepared_so_that_a_pooler_may_be_between(stack: LocalStack) -> None:
    with connect(stack.database_url) as connection:
        for number in range(20):
            connection.execute("SELECT %s::integer", (number,))
        assert connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)


def test_a_wait_for_an_answer_ends_when_it_may_not_continue_and_counts_as_an_outage(stack: LocalStack) -> None:
    asked: list[float] = []

    def may_wait(waited: float) -> bool:
        asked.append(waited)
        return waited < 0.5

    with HangingProxy(stack.database_url) as proxy:
        connection = connect(proxy.url, autocommit=True, may_wait=may_wait)
        assert connection.execute("SELECT 1").fetchone() == (1,)
        proxy.hang()
        with pytest.raises(psycopg.OperationalError, match="did not answer for") as raised, connection.transaction():
            connection.execute("SELECT 2")
    assert is_outage(raised.value)
    assert connection.closed
    assert 0.5 <= asked[-1] < 5
