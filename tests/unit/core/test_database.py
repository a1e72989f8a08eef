import traceback

import psycopg
import pytest
from psycopg import conninfo, errors

from workorders.core.database import AWAY, connection_string
from workorders.core.exceptions import ConfigurationError

URL = "postgresql://someone:hunter2@db.example:5433/orders"


def parsed(url: str) -> dict[str, object]:
    return dict(conninfo.conninfo_to_dict(connection_string(url, "workorders test")))


def test_a_dead_client_or_server_is_noticed() -> None:
    settings = parsed(URL)
    assert int(str(settings["connect_timeout"])) <= 10
    assert settings["keepalives"] == "1"
    assert int(str(settings["tcp_user_timeout"])) <= 60_000
    for name in ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout"):
        assert f"-c {name}=" in str(settings["options"])


def test_the_connection_says_who_it_is_and_keeps_the_urls_own_parts() -> None:
    settings = parsed(URL)
    assert settings["application_name"] == "workorders test"
    assert (settings["host"], settings["port"], settings["dbname"]) == ("db.example", "5433", "orders")
    assert (settings["user"], settings["password"]) == ("someone", "hunter2")


def test_what_the_url_says_itself_wins() -> None:
    settings = parsed(f"{URL}?connect_timeout=3&application_name=mine&options=-c%20lock_timeout%3D1s")
    assert (settings["connect_timeout"], settings["application_name"]) == ("3", "mine")
    assert str(settings["options"]).endswith("-c lock_timeout=1s")


@pytest.mark.parametrize(
    "url", ["mysql://someone:hunter2@db/orders", "postgresql://someone:hunter2%@db/orders", "hunter2"]
)
def test_a_url_of_a_wrong_form_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(
        ConfigurationError, match=r"the form is postgresql://user:password@host:port/database"
    ) as raised:
        connection_string(url, "workorders test")
    assert "hunter2" not in str(raised.value)


def test_not_even_a_traceback_shows_the_password_of_a_url_of_a_wrong_form() -> None:
    # A name, for a traceback quotes the source of the line that was called.
    url = "postgresql://someone:hunter2%zz@db/orders"
    with pytest.raises(ConfigurationError) as raised:
        connection_string(url, "workorders test")
    assert "hunter2" not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize(
    "code",
    [
        *("08006", "53300", "57P01", "57P03", "55000"),
        # A primary that is one no more, and limits on idle or long transactions: of psycopg's internal errors.
        *("25006", "25P03", "25P04"),
    ],
)
def test_what_may_pass_by_itself_counts_as_away(code: str) -> None:
    assert issubclass(errors.lookup(code), AWAY)


@pytest.mark.parametrize("code", ["42P01", "42501", "22P02", "23505", "XX000", "25P02"])
def test_what_asking_again_cannot_heal_does_not_count_as_away(code: str) -> None:
    assert issubclass(errors.lookup(code), psycopg.Error)
    assert not issubclass(errors.lookup(code), AWAY)
