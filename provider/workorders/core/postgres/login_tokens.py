"""Logins whose password is a token of some minutes, such as those of IAM: each connection gets a new one.

A token is checked when a connection is opened, and not afterwards.
"""

from collections.abc import Callable
from typing import Final

import psycopg
from psycopg import conninfo

from workorders.core.exceptions import one_line

_Login = tuple[str, ...]

_tokens: Final[dict[_Login, Callable[[], str]]] = {}


def register(text: str, new_token: Callable[[], str]) -> None:
    """Let all later connections of this process with the same host, port, user, and database have new tokens.

    Args:
        text: a connection string; a password in it is not used.
        new_token: returns a token; it may block, and raise anything.
    """
    _tokens[_login(text)] = new_token


def with_token(text: str) -> str:
    """Return a connection string with a new token, if the password of its login is one. It may block."""
    new_token = _tokens.get(_login(text)) if _tokens else None
    if new_token is None:
        return text
    try:
        token = new_token()
    except Exception as error:
        raise psycopg.OperationalError(
            f"There is no token for the login to Postgres ({type(error).__name__}: {one_line(error)}); nothing was "
            f"connected; correct the AWS or Azure connection that its Airflow connection names."
        ) from error
    return conninfo.make_conninfo(text, password=token)


def _login(text: str) -> _Login:
    parts = conninfo.conninfo_to_dict(text)
    return tuple(str(parts.get(name) or "") for name in ("host", "port", "user", "dbname"))
