"""Masks known secrets in the logs, errors and outputs of runs."""

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from workorders.core.secrets import is_secret_variable
from workorders.core.worker import json_values
from workorders.core.worker.captured_text import GAP, printable
from workorders.core.worker.exceptions import InputUnreadableError

MASK: Final = "***"
LEFT_OUT: Final = "\n... the middle of this log was left out ...\n"
_WHOLE_OUTPUT: Final = json_values.dumps(MASK)
MIN_CHARACTERS: Final = 5
"""A shorter value is not masked, because too many harmless words contain it. Airflow's masker has the same limit."""
MIN_BYTES_IN_BASE64: Final = 6
_URL_SAFE: Final = str.maketrans("+/", "-_")

_PASSWORD_IN_CONNINFO: Final = re.compile(r"\bpassword\s*=\s*(?:'((?:[^'\\]|\\.)*)'|(\S+))")


class Mask:
    """Replaces every known secret in a text."""

    def __init__(self, secrets: Iterable[str]) -> None:
        known = sorted({secret for secret in secrets if len(secret) >= MIN_CHARACTERS}, key=len, reverse=True)
        #: Length of the longest secret, in bytes.
        self.max_secret_bytes = max((len(secret.encode()) for secret in known), default=0)
        self._pattern = re.compile("|".join(map(re.escape, known))) if known else None

    def __call__(self, text: str) -> str:
        """Return the text without secrets; `LEFT_OUT` replaces its gaps.

        The text next to a gap may be a part of a secret, which is not recognized. So it is left out as well.
        """
        *beginnings, end = (text if self._pattern is None else self._pattern.sub(MASK, text)).split(GAP)
        margin = self.max_secret_bytes
        for number, part in enumerate(beginnings):
            beginnings[number] = part[margin if number else 0 : max(len(part) - margin, 0)]
        return LEFT_OUT.join([*beginnings, end[margin if beginnings else 0 :]])


NO_SECRETS: Final = Mask(())


def secrets_of(environment: Mapping[str, str]) -> set[str]:
    """Return the secrets that an environment holds.

    These are the values of variables with a secret name, and the passwords in URLs and connection strings. In Airflow's
    connections (`AIRFLOW_CONN_...`) they include the values of their extra with such a name.
    """
    found: set[str] = set()
    for name, value in environment.items():
        if is_secret_variable(name):
            found.add(value)
        found.update(secrets_in(value))
    return {form for secret in found for form in _forms(secret)}


def secrets_in(value: str) -> Iterator[str]:
    """Yield the secrets in one value: JSON, a URL, or a connection string of Postgres."""
    if value.lstrip().startswith(("{", "[")):
        try:
            yield from _secrets_in_json(json.loads(value))
        except ValueError:
            return
        return
    if "://" in value:
        yield from _passwords_of_url(value)
    for quoted, plain in _PASSWORD_IN_CONNINFO.findall(value):
        yield re.sub(r"\\(.)", r"\1", quoted) or plain


def _passwords_of_url(value: str) -> Iterator[str]:
    try:
        parts = urlsplit(value)
        password = parts.password
    except ValueError:
        return
    if password:
        yield password
    for field in parts.query.split("&"):
        name, _, content = field.partition("=")
        if content and is_secret_variable(name):
            yield unquote(content)


def _secrets_in_json(value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, content in value.items():
            yield from _secrets_in_json(content, key)
    elif isinstance(value, list):
        for content in value:
            yield from _secrets_in_json(content)
    elif isinstance(value, str):
        if is_secret_variable(name):
            yield value
        yield from secrets_in(value)


def _forms(secret: str) -> set[str]:
    """Return a secret in the forms in which it is written: as it is, in URLs, in JSON, in Python, and in base64."""
    # A variable may hold bytes that are no UTF-8; they are written as a log shows them.
    secret = printable(secret.encode("utf-8", "surrogateescape"))
    word = unquote(secret)
    written = {json.dumps(word)[1:-1], json.dumps(word, ensure_ascii=False)[1:-1], repr(word)[1:-1]}
    return {secret, word, quote(word, safe=""), *written, *_in_base64(word)}


def _in_base64(secret: str) -> Iterator[str]:
    """Yield the characters that a secret determines in base64 of a longer text, such as HTTP Basic's `user:password`.

    They depend on how many bytes are before the secret; a bit or two of it remain in the characters next to them.
    """
    content = secret.encode()
    if len(content) < MIN_BYTES_IN_BASE64:
        return
    for before in range(3):
        begin, end = -(-before * 8 // 6), (before + len(content)) * 8 // 6
        encoded = b64encode(b"\0" * before + content).decode()[begin:end]
        yield from (encoded, encoded.translate(_URL_SAFE))


def mask_output(output: bytes, mask: Mask) -> bytes:
    """Return an output of `json_values.dumps` without secrets: in its strings and its names, and where a number is one.

    Not in its JSON text, because a secret may begin in one value and end in another, or be part of a number. The result
    would not be JSON. An output that is nested too deep to be looked through is masked as a whole.
    """
    text = output.decode()
    # Without a backslash the text contains every string as it is, so a search in the text is enough. With one, a string
    # may be escaped.
    if "\\" not in text and mask(text) == text:
        return output
    try:
        return json_values.dumps(_mask_value(json_values.loads(output), mask))
    except (InputUnreadableError, RecursionError):
        return _WHOLE_OUTPUT


def _mask_value(value: Any, mask: Mask) -> Any:
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return {mask(name): _mask_value(content, mask) for name, content in value.items()}
    if isinstance(value, list):
        return [_mask_value(content, mask) for content in value]
    if isinstance(value, int | float) and mask(str(value)) == MASK:
        return MASK
    return value
