import traceback

import psycopg
import pytest
from psycopg import conninfo, errors

from workorders.core.exceptions import ConfigurationError
from workorders.core.postgres.connection import _startup_options, _without_options, connection_string, is_outage

GIVEN = conninfo.make_conninfo(host="proxy.example", user="ann", options=_startup_options({}))
URL = "postgresql://someone:hunter2@db.example:5433/orders"


def parsed(url: str) -> dict[str, object]:
    return dict(conninfo.conninfo_to_dict(connection_string(url, "workorders test")))


def test_the_connection_names_its_application_and_keeps_the_urls_own_parts() -> None:
    settings = parsed(URL)
    assert settings["application_name"] == "workorders test"
    assert (settings["host"], settings["port"], settings["dbname"]) == ("db.example", "5433", "orders")
    assert (settings["user"], settings["password"]) == ("someone", "hunter2")


def test_the_settings_of_the_url_win() -> None:
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
        *("08000", "08001", "08003", "08004", "08006", "08007", "08P01"),
        *("57P01", "57P02", "57P03", "57P05", "53300", "40P01", "55P03"),
        # A primary that is no longer one: psycopg counts it among its internal errors.
        "25006",
    ],
)
def test_an_error_that_passes_without_help_is_an_outage(code: str) -> None:
    assert is_outage(errors.lookup(code)("reported by Postgres"))


@pytest.mark.parametrize(
    "code",
    [
        *("42P01", "42501", "22P02", "23505", "XX000", "25P02", "25P03", "25P04", "28P01", "28000", "3D000"),
        # psycopg's OperationalError holds these as well.
        *(
            "53100",
            "53200",
            "53400",
            "54000",
            "54001",
            "54011",
            "55000",
            "55006",
            "57014",
            "57P04",
            "58030",
            "40001",
            "40002",
        ),
    ],
)
def test_an_error_that_each_further_try_raises_again_is_no_outage(code: str) -> None:
    assert not is_outage(errors.lookup(code)("reported by Postgres"))


def test_no_sqlstate_is_an_outage_but_those_that_are_named() -> None:
    named = {errors.lookup(code).sqlstate or "" for code in errors._sqlcodes if is_outage(errors.lookup(code)())}
    others = {code for code in named if not code.startswith("08")}
    assert others == {"57P01", "57P02", "57P03", "57P05", "53300", "40P01", "55P03", "25006"}


@pytest.mark.parametrize(
    "text",
    [
        "the connection is closed",
        "consuming input failed: server closed the connection unexpectedly",
        'connection failed: connection to server at "10.0.0.1", port 5432 failed: Connection refused',
        'connection failed: connection to server on socket "/run/.s.PGSQL.5432" failed: No such file or directory',
        "failed to resolve host 'db.example': [Errno -2] Name or service not known",
        'connection failed: FATAL:  too many connections for role "workorders"',
        "connection timeout expired",
    ],
)
def test_a_connection_that_cannot_be_had_now_is_an_outage(text: str) -> None:
    assert is_outage(psycopg.OperationalError(text))


@pytest.mark.parametrize(
    "text",
    [
        'FATAL:  password authentication failed for user "workorders"',
        "fe_sendauth: no password supplied",
        'FATAL:  database "order" does not exist',
        'FATAL:  role "nobody" does not exist',
        'FATAL:  role "nobody" is not permitted to log in',
        'FATAL:  no pg_hba.conf entry for host "10.0.0.1", user "workorders", database "orders", no encryption',
        'FATAL:  pg_hba.conf rejects connection for host "10.0.0.1", user "workorders", database "orders"',
        'FATAL:  permission denied for database "orders"',
        "server does not support SSL, but SSL was required",
        "SSL error: certificate verify failed",
    ],
)
def test_a_connection_that_was_refused_for_good_is_no_outage(text: str) -> None:
    prefix = 'connection failed: connection to server at "10.0.0.1", port 5432 failed: '
    assert not is_outage(psycopg.OperationalError(prefix + text))


def test_an_error_that_is_not_the_databases_is_no_outage() -> None:
    assert not is_outage(psycopg.InterfaceError("the cursor is closed"))
    assert not is_outage(TimeoutError())


@pytest.mark.parametrize(
    "text",
    [
        "FATAL:  Feature not supported: RDS Proxy currently doesn\u2019t support command-line options.",
        "ERROR:  unsupported startup parameter in options: lock_timeout. Please use unpooled connection or"
        " remove this parameter from the startup package.",
        "FATAL:  unsupported startup parameter: options",
    ],
    ids=["RDS Proxy", "Neon", "PgBouncer"],
)
def test_a_pooler_that_refuses_options_is_asked_without_them(text: str) -> None:
    without = _without_options(GIVEN, psycopg.OperationalError(f"connection failed: {text}"))
    assert conninfo.conninfo_to_dict(without) == {"host": "proxy.example", "user": "ann", "options": ""}


def test_another_error_is_raised_as_it_is() -> None:
    error = psycopg.OperationalError('FATAL:  password authentication failed for user "ann"')
    with pytest.raises(psycopg.OperationalError) as raised:
        _without_options(GIVEN, error)
    assert raised.value is error
