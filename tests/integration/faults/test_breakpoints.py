"""Breakpoints hold one message of one session, on a real Postgres."""

import subprocess
import sys
import threading
from collections.abc import Iterator

import psycopg
import pytest

from faults.breakpoints import BEFORE_COMMIT, Breakpoint, PostgresProxy
from faults.processes import kill, owner_of
from local_stack.stack import LocalStack
from local_stack.waiting import wait_until

pytestmark = pytest.mark.integration

SECONDS = 30.0
APPLICATION = "workorders test"
INSERT = "INSERT INTO faults.held VALUES (1)"
PROGRAM = f"""
import psycopg, sys
with psycopg.connect(sys.argv[1], application_name={APPLICATION!r}) as connection:
    connection.execute({INSERT!r})
"""


@pytest.fixture
def url(stack: LocalStack) -> Iterator[str]:
    """A database with an empty table."""
    with psycopg.connect(stack.database_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS faults")
        connection.execute("CREATE TABLE faults.held (number integer)")
        yield stack.database_url
        connection.execute("DROP TABLE faults.held")


@pytest.fixture
def proxy(stack: LocalStack) -> Iterator[PostgresProxy]:
    made = PostgresProxy(stack.postgres.port)
    yield made
    made.close()


def through(proxy: PostgresProxy, url: str, stack: LocalStack) -> str:
    return url.replace(f":{stack.postgres.port}/", f":{proxy.port}/")


def rows(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM faults.held").fetchone()
        assert row is not None
        return int(row[0])


def start(url: str) -> "subprocess.Popen[str]":
    """Start a program that inserts a row and commits."""
    return subprocess.Popen([sys.executable, "-c", PROGRAM, url], stderr=subprocess.PIPE, text=True)


def test_a_session_is_held_before_a_statement_until_it_is_released(
    stack: LocalStack, proxy: PostgresProxy, url: str
) -> None:
    with proxy.breakpoint(Breakpoint(APPLICATION, BEFORE_COMMIT)) as point:
        program = start(through(proxy, url, stack))
        point.wait(SECONDS)
        assert rows(url) == 0
        point.release()
        assert program.wait(SECONDS) == 0
    assert rows(url) == 1


def test_a_client_that_dies_while_it_is_held_has_not_sent_the_statement(
    stack: LocalStack, proxy: PostgresProxy, url: str
) -> None:
    with proxy.breakpoint(Breakpoint(APPLICATION, BEFORE_COMMIT)) as point:
        program = start(through(proxy, url, stack))
        client = owner_of(*point.wait(SECONDS).ports)
        assert client.pid == program.pid
        # Its parent is this test, which has to take note of its end.
        threading.Thread(target=program.wait, daemon=True).start()
        kill(client)
    assert wait_until(lambda: proxy.cut() == 0, seconds=SECONDS)
    assert rows(url) == 0


def test_a_lost_answer_leaves_the_commit_done_and_its_client_without_knowledge(
    stack: LocalStack, proxy: PostgresProxy, url: str
) -> None:
    with proxy.breakpoint(Breakpoint(APPLICATION, BEFORE_COMMIT, lose_answer=True)) as point:
        program = start(through(proxy, url, stack))
        point.wait(SECONDS)
        assert rows(url) == 1
        point.release()
        _, error = program.communicate(timeout=SECONDS)
    assert program.returncode != 0
    assert "server closed the connection unexpectedly" in error


def test_other_sessions_and_earlier_ones_are_let_pass(stack: LocalStack, proxy: PostgresProxy, url: str) -> None:
    with proxy.breakpoint(Breakpoint(APPLICATION, BEFORE_COMMIT, passing=1)) as point:
        with psycopg.connect(through(proxy, url, stack), application_name="another") as other:
            other.execute(INSERT)
        assert start(through(proxy, url, stack)).wait(SECONDS) == 0
        assert not point.is_reached
        assert rows(url) == 2
        held = start(through(proxy, url, stack))
        point.wait(SECONDS)
        point.release()
        assert held.wait(SECONDS) == 0
    assert rows(url) == 3


def test_a_commit_is_held_only_after_the_statement_that_it_is_meant_for(
    stack: LocalStack, proxy: PostgresProxy, url: str
) -> None:
    with (
        proxy.breakpoint(Breakpoint(APPLICATION, BEFORE_COMMIT, after=b"another statement")) as point,
    ):
        assert start(through(proxy, url, stack)).wait(SECONDS) == 0
        assert not point.is_reached
