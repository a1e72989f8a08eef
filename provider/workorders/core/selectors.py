"""What picks a value out of an item: the ordering key, of an idempotency key, the number of a sequence.

A selector is one word of a definition:

- `stream`: the name of the item's stream;
- `key`: the key of the event, that is `/key` of its request;
- `header:NAME`: the first header of that name, in any case of letters, among the pairs in the request's `headers`;
- `request:/json/pointer` and `body:/json/pointer`: a place in the request or the input, in the words of RFC 6901;
- `body`: the whole input.

A missing or null value yields None.

A key may be a list of selectors. Its value is the list of their values, and None if one of them is missing.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from functools import cache
from hashlib import blake2b
from json import loads as loads_exactly
from typing import Any, Final

import orjson

from workorders.core.exceptions import ConfigurationError
from workorders.core.items import Item

FORM: Final = r"^(stream|key|body|header:.+|(body|request):/.*)$"
"""The texts that are selectors, apart from a lone tilde in a pointer."""
FORMS: Final = "stream, key, body, header:NAME, body:/json/pointer or request:/json/pointer"

_INDEX: Final = re.compile(r"0|[1-9][0-9]*")
_INEXACT: Final = frozenset({float, dict, list})
_last: tuple[bytes, Any] = (b"", None)
"""The text that was parsed last, because the next selector usually reads the same one."""
_ALL_DIGITS: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
_LONE_TILDE: Final = re.compile(r"~(?![01])")


@dataclass(frozen=True)
class Selector:
    """The place of a value in an item, or several places."""

    text: str
    """The selector; a JSON array of several."""

    @classmethod
    def parse(cls, text: "str | Sequence[str]") -> "Selector":
        """Parse a selector, a list of selectors, or the JSON array of such a list.

        Raises:
            ConfigurationError: the text is not a selector; the message names the forms.
        """
        if isinstance(text, str) and text.startswith("["):
            try:
                text = orjson.loads(text)
            except orjson.JSONDecodeError as error:
                raise ConfigurationError(f"expected {FORMS}, or a list of them, got {text!r}.") from error
        if isinstance(text, list | tuple):
            return cls(orjson.dumps([cls._parse_one(part).text for part in text]).decode())
        return cls._parse_one(text)

    @classmethod
    def _parse_one(cls, text: Any) -> "Selector":
        if not isinstance(text, str) or not re.match(FORM, text, re.DOTALL):
            raise ConfigurationError(f"expected {FORMS}, got {text!r}.")
        source, colon, place = text.partition(":")
        if colon and source != "header" and _LONE_TILDE.search(place):
            raise ConfigurationError(f"expected ~0 or ~1 in place of a lone ~ in a JSON pointer, got {text!r}.")
        return cls(text)

    @property
    def parts(self) -> tuple[str, ...]:
        """The selectors of a list; a single selector is alone."""
        return tuple(orjson.loads(self.text)) if self.text.startswith("[") else (self.text,)

    def value(self, item: Item) -> bytes | None:
        """Return the value as canonical JSON, with equal bytes for equal values; None if there is none.

        A string keeps its quotes: the number 1 and the text "1" are two values, while 1 and 1.0 are one. The order of
        an object's keys and the white space do not count.
        """
        found = self.found(item)
        return None if found is None else canonical(found)

    def ordering_key(self, item: Item) -> int | None:
        """Return the value as a number of 64 bits with sign, the same in every process; None when there is none."""
        value = self.value(item)
        return None if value is None else hash64(value)

    def __str__(self) -> str:
        return self.text

    def found(self, item: Item) -> Any:
        """Return the value as a Python value; None if there is none.

        A number with a point or an exponent, or beyond 64 bits, is a Decimal, so that no digit is lost.
        """
        return _finder(self.text)(item)


@cache
def _finder(text: str) -> Callable[[Item], Any]:
    if text.startswith("["):
        parts = [_finder(part) for part in Selector(text).parts]

        def all_found(item: Item) -> list[Any] | None:
            values = [part(item) for part in parts]
            return None if None in values else values

        return all_found
    source, _, place = text.partition(":")
    if source == "stream":
        return lambda item: item.stream
    if source == "header":
        name = place.lower()
        return lambda item: _first_header(_read(item.request, (), exactly=False), name)
    if source == "key":
        return lambda item: _read(item.request, ("key",))
    path = _path(place)
    if source == "request":
        return lambda item: _read(item.request, path)
    return lambda item: _read(item.body, path)


_UNREADABLE: Final = (ValueError, RecursionError, ArithmeticError)
"""What JSON raises that no key can be read from; the last for an exponent that no Decimal holds."""


def ordering_keys_of(text: str) -> list[int]:
    """Return the numbers of the ordering keys that a text may mean: that text, and the JSON value that it spells."""
    meant: list[Any] = [text]
    with suppress(*_UNREADABLE):
        meant.append(loads_exactly(text, parse_float=Decimal, parse_int=_integer))
    found = set()
    for value in meant:
        # Half of a surrogate pair is in no ordering key.
        with suppress(TypeError):
            found.add(hash64(canonical(value)))
    return sorted(found)


def hash64(value: bytes) -> int:
    """Return a hash of 64 bits as a signed number, the same in every process."""
    return int.from_bytes(blake2b(value, digest_size=8).digest(), "big", signed=True)


def hash128(value: bytes) -> bytes:
    """Return a hash of 16 bytes, which identifies a key and contains no data of the event."""
    return blake2b(value, digest_size=16).digest()


def _path(pointer: str) -> tuple[str, ...]:
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])


def _read(text: bytes | None, path: Sequence[str], *, exactly: bool = True) -> Any:
    global _last  # noqa: PLW0603 - a memory of one, which several threads may share: a tuple is replaced as a whole
    if text is None:
        return None
    known, document = _last
    if known is not text:
        try:
            document = orjson.loads(text)
        except orjson.JSONDecodeError:  # Postgres holds some numbers that orjson does not
            return _read_exactly(text, path)
        _last = (text, document)
    found = _follow(document, path)
    # orjson makes a double of a long number, so that two different numbers could seem to be one.
    return _read_exactly(text, path) if exactly and type(found) in _INEXACT else found


def _read_exactly(text: bytes, path: Sequence[str]) -> Any:
    try:
        return _follow(loads_exactly(text, parse_float=Decimal, parse_int=_integer), path)
    except _UNREADABLE:
        return None


def _integer(digits: str) -> int | Decimal:
    try:
        return int(digits)
    except ValueError:  # Python refuses to convert more than 4300 digits
        return Decimal(digits)


def _follow(document: Any, path: Sequence[str]) -> Any:
    for part in path:
        if isinstance(document, dict):
            document = document.get(part)
        elif isinstance(document, list) and _INDEX.fullmatch(part) and int(part[:18]) < len(document):
            document = document[int(part)]
        else:
            return None
    return document


def _first_header(request: Any, name: str) -> Any:
    headers = request.get("headers") if isinstance(request, dict) else None
    for pair in headers if isinstance(headers, list) else ():
        match pair:
            case [str(found), value] if found.lower() == name:
                return value
    return None


def canonical(value: Any) -> bytes:
    """Return the canonical JSON of a value, which is the same for every spelling of it.

    It does not call itself: a message may be nested more deeply than Python's stack is.
    """
    written: list[bytes] = []
    left: list[Any] = [value]  # the next one last; bytes are written as they are
    while left:
        part = left.pop()
        if isinstance(part, bytes):
            written.append(part)
        elif isinstance(part, str) or part is True or part is False:
            written.append(orjson.dumps(part))
        elif isinstance(part, int | Decimal):
            written.append(_number(part))
        elif isinstance(part, list):
            left += reversed([b"[", *_separated([item] for item in part), b"]"])
        elif isinstance(part, dict):
            pairs = ([orjson.dumps(key) + b":", part[key]] for key in sorted(part))
            left += reversed([b"{", *_separated(pairs), b"}"])
        else:
            written.append(b"null")
    return b"".join(written)


def _separated(groups: Iterable[list[Any]]) -> Iterator[Any]:
    for number, group in enumerate(groups):
        if number:
            yield b","
        yield from group


def _number(value: int | Decimal) -> bytes:
    """Return a number without trailing zeros; zero has no sign."""
    sign, digits, exponent = (_ALL_DIGITS.normalize(Decimal(value)) or Decimal(0)).as_tuple()
    return f"{'-' if sign else ''}{''.join(map(str, digits))}{f'e{exponent}' if exponent else ''}".encode()
