"""From an Airflow connection to libpq's connection string."""

import asyncio
import json
from collections.abc import Callable
from itertools import count
from pathlib import Path

import psycopg
import pytest
from airflow.providers.postgres.hooks.postgres import PostgresHook
from airflow.sdk.exceptions import AirflowNotFoundException
from psycopg.conninfo import conninfo_to_dict

from workorders.airflow.connections import async_database_url, database_url
from workorders.core.exceptions import ConfigurationError
from workorders.core.postgres import credentials
from workorders.core.postgres.connection import is_outage

NASTY = "p@ss w:o/r?d%20'\\#&=ü"

Store = Callable[..., None]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    """Store the Airflow connection `a_database`."""

    def store(**fields: object) -> None:
        monkeypatch.setenv("AIRFLOW_CONN_A_DATABASE", json.dumps({"conn_type": "postgres", **fields}))

    return store


def test_every_field_arrives(store: Store) -> None:
    store(host="db.example", port=5433, login="clerk", password="secret", schema="orders")
    assert conninfo_to_dict(database_url("a_database")) == {
        "host": "db.example",
        "port": "5433",
        "user": "clerk",
        "password": "secret",
        "dbname": "orders",
    }


def test_a_password_may_hold_whatever_people_choose(store: Store) -> None:
    store(host="db.example", login=NASTY, password=NASTY, schema=NASTY)
    found = conninfo_to_dict(database_url("a_database"))
    assert (found["user"], found["password"], found["dbname"]) == (NASTY, NASTY, NASTY)


def test_a_password_in_a_uri_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_A_DATABASE", "postgresql://clerk:a%40b%2525@db.example:5433/orders")
    assert conninfo_to_dict(database_url("a_database"))["password"] == "a@b%25"


def test_extras_of_libpq_arrive_and_those_of_airflows_hook_do_not(store: Store) -> None:
    airflows = {"cursor": "dictcursor", "azure_conn_id": "a", "aws_conn_id": "b", "sqlalchemy_scheme": "postgresql"}
    store(host="db.example", extra={"sslmode": "verify-full", "sslrootcert": "system", **airflows})
    assert conninfo_to_dict(database_url("a_database")) == {
        "host": "db.example",
        "sslmode": "verify-full",
        "sslrootcert": "system",
    }


def test_certificates_and_keys_arrive_as_texts(store: Store, tmp_path: Path) -> None:
    pem = "-----BEGIN CERTIFICATE-----\nMII'\\=\n-----END CERTIFICATE-----\n"
    file = tmp_path / "ca.pem"
    file.write_text(pem, encoding="ascii")
    store(host="db.example", extra={"sslrootcert": str(file), "sslcert": pem, "sslkey": str(file)})
    assert conninfo_to_dict(database_url("a_database")) == {
        "host": "db.example",
        "sslrootcert": pem,
        "sslcert": pem,
        "sslkey": pem,
    }


def test_a_certificate_that_cannot_be_read_is_named(store: Store) -> None:
    store(host="db.example", extra={"sslrootcert": "/nowhere/ca.pem"})
    with pytest.raises(ConfigurationError, match=r"sslrootcert: the file /nowhere/ca\.pem cannot be read"):
        database_url("a_database")


class TestTokens:
    """The hook of Airflow makes a token per call."""

    @pytest.fixture(autouse=True)
    def tokens(self, monkeypatch: pytest.MonkeyPatch) -> None:
        numbers = count(1)
        monkeypatch.setattr(
            PostgresHook,
            "get_iam_token",
            lambda _, connection: (connection.login, f"token {next(numbers)}", connection.port),
        )
        monkeypatch.setattr(credentials, "_tokens", {})

    def test_each_call_and_each_connection_has_a_new_token_and_the_password_is_not_used(self, store: Store) -> None:
        store(host="db.example", login="clerk", password="old", schema="orders", extra={"iam": True})
        urls = [database_url("a_database") for _ in range(2)]
        assert [conninfo_to_dict(url)["password"] for url in urls] == ["token 1", "token 2"]
        assert conninfo_to_dict(credentials.with_token(urls[0]))["password"] == "token 3"

    def test_the_triggerers_url_is_the_same_for_all_tasks(self, store: Store) -> None:
        store(host="db.example", login="clerk", password="old", extra={"iam": True})
        urls = [asyncio.run(async_database_url("a_database")) for _ in range(2)]
        assert [conninfo_to_dict(url) for url in urls] == [{"host": "db.example", "user": "clerk"}] * 2
        assert str(conninfo_to_dict(credentials.with_token(urls[0]))["password"]).startswith("token ")

    def test_a_login_of_another_connection_keeps_its_password(self, store: Store) -> None:
        store(host="db.example", login="clerk", extra={"iam": True})
        database_url("a_database")
        other = "host=db.example user=reader password=own"
        assert credentials.with_token(other) == other

    def test_a_connection_without_a_login_is_refused(self, store: Store) -> None:
        store(host="db.example", extra={"iam": True})
        with pytest.raises(ConfigurationError, match="a_database has iam and no login"):
            database_url("a_database")

    def test_a_token_that_cannot_be_had_is_an_outage(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: object) -> None:
            raise TimeoutError("no metadata service")

        monkeypatch.setattr(PostgresHook, "get_iam_token", fail)
        store(host="db.example", login="clerk", extra={"iam": True})
        with pytest.raises(psycopg.OperationalError, match="TimeoutError: no metadata service") as raised:
            database_url("a_database")
        assert is_outage(raised.value)


def test_an_empty_field_leaves_libpqs_default(store: Store) -> None:
    store(host="db.example", login="", password=None, schema="")
    assert conninfo_to_dict(database_url("a_database")) == {"host": "db.example"}


def test_a_connection_that_does_not_exist_is_named() -> None:
    with pytest.raises(AirflowNotFoundException, match="nowhere"):
        database_url("nowhere")
