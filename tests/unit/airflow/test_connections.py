"""From an Airflow connection to libpq's connection string."""

import json
from collections.abc import Callable

import pytest
from airflow.sdk.exceptions import AirflowNotFoundException
from psycopg.conninfo import conninfo_to_dict

from workorders.airflow.connections import database_url

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
    store(host="db.example", extra={"sslmode": "verify-full", "sslrootcert": "/ca.pem", "cursor": "dictcursor"})
    assert conninfo_to_dict(database_url("a_database")) == {
        "host": "db.example",
        "sslmode": "verify-full",
        "sslrootcert": "/ca.pem",
    }


def test_an_empty_field_leaves_libpqs_default(store: Store) -> None:
    store(host="db.example", login="", password=None, schema="")
    assert conninfo_to_dict(database_url("a_database")) == {"host": "db.example"}


def test_a_connection_that_does_not_exist_is_named() -> None:
    with pytest.raises(AirflowNotFoundException, match="nowhere"):
        database_url("nowhere")
