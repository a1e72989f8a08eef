"""TLS with a private authority, by processes that have no file of it."""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from local_stack.certificates import Authority
from local_stack.pgbouncer import CERTIFIED_USER
from local_stack.stack import LocalStack
from support.pgbouncer import certified_pooler
from workorders.core.postgres.connection import connect, error_code
from workorders.core.postgres.credentials import with_texts

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def authority() -> Authority:
    """The authority that the server and its one user belong to."""
    return Authority.create("a private authority")


@pytest.fixture(scope="module")
def url(stack: LocalStack, authority: Authority) -> Iterator[str]:
    """The connection string of the user, with texts."""
    with certified_pooler(stack, authority) as text:
        yield text


def is_connected(text: str) -> bool:
    """Connect, and return whether that was by TLS."""
    with connect(text) as connection:
        return bool(connection.pgconn.ssl_in_use)


@pytest.mark.parametrize("start", ["spawn", "fork"])
def test_another_process_connects_without_a_file(url: str, start: str) -> None:
    assert is_connected(url)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(start)) as pool:
        assert pool.submit(is_connected, url).result(120)


def test_files_of_the_worker_travel_as_texts(url: str, tmp_path: Path) -> None:
    parts = psycopg.conninfo.conninfo_to_dict(url)
    names = ("sslrootcert", "sslcert", "sslkey")
    for name in names:
        (tmp_path / name).write_text(str(parts[name]), encoding="ascii")
    travelling = with_texts(make_conninfo(url, **{name: str(tmp_path / name) for name in names}))
    for name in names:
        (tmp_path / name).unlink()
    assert is_connected(travelling)


def test_a_server_of_another_authority_is_refused(url: str) -> None:
    with pytest.raises(psycopg.OperationalError, match="certificate verify failed") as raised:
        connect(make_conninfo(url, sslrootcert=Authority.create("another").pem))
    assert error_code(raised.value) == "WO-POSTGRES-REFUSED"


def test_a_server_at_another_address_than_its_certificate_has_is_refused(url: str) -> None:
    with pytest.raises(psycopg.OperationalError, match="does not match host name"):
        connect(make_conninfo(url, host="db.example", hostaddr="127.0.0.1"))


def test_a_user_with_a_certificate_of_another_authority_is_refused(url: str) -> None:
    other = Authority.create("another").client(CERTIFIED_USER)
    for certificate, key in ((other.chain, other.key()), ("", "")):
        with pytest.raises(psycopg.OperationalError):
            connect(make_conninfo(url, sslcert=certificate, sslkey=key))
