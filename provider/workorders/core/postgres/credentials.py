"""Certificates and keys as texts of a connection string, and passwords that are tokens.

Spark's executors do not have the worker's files, and libpq reads certificates from files only. So each text becomes a
file in this process's memory, which is on no disk. A token of some minutes, such as those of IAM, is checked when a
connection is opened, and not afterwards: each connection gets a new one.
"""

import os
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Final

import psycopg
from psycopg import conninfo

from workorders.core.exceptions import ConfigurationError, one_line

_FIELDS: Final = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
_TEXT: Final = "-----BEGIN "
_MAX_FILES: Final = 64
"""Texts change when certificates are renewed, and the oldest files are closed."""

_files: OrderedDict[str, int] = OrderedDict()
_lock: Final = Lock()

_Login = tuple[str, ...]

_tokens: Final[dict[_Login, Callable[[], str]]] = {}


def with_texts(text: str) -> str:
    """Return a connection string with the content of each file of a certificate or key in place of its path."""
    return _replaced(text, _read, lambda value: not value.startswith(_TEXT) and value != "system")


def with_files(text: str) -> str:
    """Return a connection string that libpq understands: with a path in place of each text."""
    return _replaced(text, lambda _, value: _file_of(value), lambda value: value.startswith(_TEXT))


def _replaced(text: str, replace: Callable[[str, str], str], is_wanted: Callable[[str], bool]) -> str:
    if not any(field in text for field in _FIELDS):
        return text
    parts = conninfo.conninfo_to_dict(text)
    given = {field: str(parts[field]) for field in _FIELDS if parts.get(field)}
    changed = {field: replace(field, value) for field, value in given.items() if is_wanted(value)}
    return conninfo.make_conninfo(text, **changed) if changed else text


def _read(field: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"The connection to Postgres: {field}: the file {path} cannot be read ({type(error).__name__}); nothing "
            "was connected; name a PEM file, or give its text."
        ) from None


def _file_of(content: str) -> str:
    with _lock:
        if content not in _files:
            file = os.memfd_create("workorders")
            os.fchmod(file, 0o600)  # libpq refuses a key that others may read
            os.write(file, content.encode())
            _files[content] = file
        _files.move_to_end(content)
        while len(_files) > _MAX_FILES:
            os.close(_files.popitem(last=False)[1])
        return f"/proc/self/fd/{_files[content]}"


def register_tokens(text: str, new_token: Callable[[], str]) -> None:
    """Let all later connections of this process with the same host, port, user, and database have new tokens.

    A password in the text is not used. `new_token` may block, and raise anything.
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
