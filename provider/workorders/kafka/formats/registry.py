"""Schemas of a Confluent-compatible schema registry, asked for once per id, and what decodes payloads by them."""

import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

from cachetools import FIFOCache, TTLCache
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError

from workorders.core.creation.json_validation import recognize
from workorders.core.environment import THIS_MACHINE
from workorders.core.exceptions import ConfigurationError, one_line
from workorders.core.items import Rejection
from workorders.core.private_files import write_private
from workorders.kafka.exceptions import RegistryError, RegistryRefusedError, RegistryUnavailableError
from workorders.kafka.formats.decoded import Budget, Decoded, Headers, ParseSchema, ReadPayload, UnsafeSchemaError

_DEFAULTS: Final = {"timeout": 10, "max.retries": 2, "retries.wait.ms": 200, "retries.max.wait.ms": 1000}
"""The client's own default is to wait indefinitely."""
_FILES: Final = ("ssl.ca", "ssl.certificate", "ssl.key")
_UNKNOWN: Final = frozenset({40401, 40402, 40403})
"""The registry's own codes: no such subject, no such version, no such schema."""
_SHOWN_CHARACTERS: Final = 200
_ABOUT_A_SCHEMA: Final = frozenset({400, 403, 404, 422})
"""May be about the schema alone: senders choose ids that no registry can read, or that it does not show."""
_MAX_WAIT_SECONDS: Final = 30
_MAX_ANSWER_SECONDS: Final = 30
"""The client's own limit is for the next bytes, however few."""
_MAX_REFERENCES: Final = 100
_MAX_REFERENCE_DEPTH: Final = 20
_MAX_SCHEMA_CHARACTERS: Final = 4 * 1024 * 1024
_MAX_ANSWER_BYTES: Final = 4 * _MAX_SCHEMA_CHARACTERS
_MAX_KEPT_CHARACTERS: Final = 2 * _MAX_SCHEMA_CHARACTERS
"""Of the schemas of a decoder: one may take a hundred times as many bytes."""
_MIN_CHARACTERS: Final = 4096
"""Counted for a shorter schema, which takes as many bytes, or for one that cannot be used."""
MAX_UNKNOWN: Final = 20
"""Senders choose the ids, and each is a request."""
_MAGIC: Final = 0
_HEADER_BYTES: Final = 5


class UnknownSchemaError(LookupError):
    """The registry does not have a schema of that id, or does not show it; the text is what it does not do."""


class SchemaRegistry:
    """A registry. Nothing is cached here, because a schema is parsed once and kept by its decoder."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Make a `SchemaRegistryClient`.

        Its certificates may be PEM texts instead of files: `ssl.ca.pem`, `ssl.certificate.pem`, and `ssl.key.pem`.

        Raises:
            ConfigurationError: the client cannot be made of these settings, or its login would cross the network in
                plain text.
        """
        addresses = [urlsplit(address.strip()) for address in str(settings.get("url")).split(",")]
        self._where = f"the schema registry {','.join(map(_without_login, addresses))}"
        has_login = any(name.startswith(("basic.auth.", "bearer.auth.")) for name in settings)
        plain = [found for found in addresses if found.scheme == "http" and found.hostname not in THIS_MACHINE]
        if any(has_login or address.username for address in plain):
            raise ConfigurationError(
                f"The login of {self._where} would cross the network in plain text; it was not asked. Set the schema "
                f"https in its connection."
            )
        try:
            self._client = _client(settings)
        except Exception as error:  # noqa: BLE001 - the client raises what its code happens to meet
            # The text may repeat a setting, and so a password.
            raise ConfigurationError(
                f"No client of {self._where} can be made with the settings of its connection "
                f"({type(error).__name__}); no message was read. Correct the connection's extra."
            ) from None

    def texts(self, schema_id: int, fmt: str | None = None) -> dict[str, str]:
        """Return the texts of a schema and of all that it refers to by their names, its own last and without a name.

        By the format `serialized`, those of Protobuf are descriptors in base64, if the registry knows it.

        Raises:
            UnknownSchemaError: the registry does not have it.
            UnsafeSchemaError: it refers to very many schemas, or to very long ones.
            RegistryUnavailableError: no answer, or none that helps; a later retry may succeed.
            RegistryRefusedError: the registry refused the client.
        """
        asked: dict[tuple[str, int], str] = {}
        texts: dict[str, str] = {}

        def of_version(subject: str, version: int) -> Schema:
            return self._client.get_version(subject, version, fmt=fmt).schema

        def collect(found: Any, depth: int) -> None:
            for reference in found.references or ():
                place = (reference.subject, reference.version)
                if place not in asked:
                    _require_few([*asked, place], asked.values(), depth)
                    referred = self._ask(partial(of_version, *place))
                    asked[place] = referred.schema_str or ""
                    collect(referred, depth + 1)
                texts.setdefault(reference.name, asked[place])

        main = self._ask(lambda: self._client.get_schema(schema_id, fmt=fmt))
        collect(main, 0)
        found = {**texts, "": main.schema_str or ""}
        _require_few(texts, found.values())
        return found

    def _ask(self, request: Callable[[], Schema]) -> Schema:
        try:
            schema = request()
        except SchemaRegistryError as error:
            raise self._error_of(error) from None
        except (ValueError, TypeError, AttributeError, LookupError) as error:  # no JSON, or another JSON
            raise self._misled(f"answered with something else than a schema ({type(error).__name__})") from None
        except Exception as error:  # noqa: BLE001 - a network has many failures
            reason = f"{type(error).__name__}: {one_line(error)}"
            raise RegistryUnavailableError(
                f"{self._where} did not answer ({reason}); nothing was committed there."
            ) from None
        finally:
            self._client.clear_caches()  # without a bound
        if not isinstance(schema.schema_str, str):
            raise self._misled("answered with JSON that is not a schema")
        return schema

    def _error_of(self, error: SchemaRegistryError) -> Exception:
        """Return the error for an answer that is no schema."""
        status = error.http_status_code
        if status == HTTPStatus.NOT_FOUND and error.error_code in _UNKNOWN:
            return UnknownSchemaError("does not have")
        if status in _ABOUT_A_SCHEMA and self._shows_subjects():
            is_forbidden = status == HTTPStatus.FORBIDDEN
            return UnknownSchemaError("does not let its client read" if is_forbidden else "does not have")
        answer = f"answered {status}: {one_line(error.error_message or 'no reason')[:_SHOWN_CHARACTERS]}"
        if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            return RegistryRefusedError(
                f"{self._where} {answer}; nothing was committed there. Correct the login of its connection."
            )
        if status == HTTPStatus.NOT_FOUND:
            return self._misled(answer)
        return RegistryUnavailableError(f"{self._where} {answer}; nothing was committed there.")

    def _shows_subjects(self) -> bool:
        """Return whether this is a registry that shows the client any subject, so that it refuses one schema alone."""
        try:
            found = self._client.get_subjects(limit=1)
        except Exception:  # noqa: BLE001 - the first answer is reported
            return False
        return isinstance(found, list) and len(found) > 0

    def _misled(self, answer: str) -> RegistryUnavailableError:
        return RegistryUnavailableError(
            f"{self._where} {answer}, which is not an answer of a schema registry; nothing was committed there. Check "
            f"the address in its connection, and proxies on the way."
        )


def _require_few(references: Collection[Any], texts: Iterable[str], depth: int = 0) -> None:
    too_long = sum(map(len, texts)) > _MAX_SCHEMA_CHARACTERS
    if len(references) > _MAX_REFERENCES or depth >= _MAX_REFERENCE_DEPTH or too_long:
        raise UnsafeSchemaError(
            f"it refers to more than {_MAX_REFERENCES} schemas, in more than {_MAX_REFERENCE_DEPTH} steps, or has more "
            f"than {_MAX_SCHEMA_CHARACTERS} characters with them"
        )


def _client(settings: Mapping[str, Any]) -> SchemaRegistryClient:
    given = {**_DEFAULTS, **settings}
    # The client reads its files when it is made, and can take no text.
    with tempfile.TemporaryDirectory(prefix="workorders-registry-") as folder:
        for name in _FILES:
            if f"{name}.pem" in given:
                file = Path(folder, name)
                write_private(file, given.pop(f"{name}.pem"))
                given[f"{name}.location"] = str(file)
        client = SchemaRegistryClient(given)
    # The client has no setting for this.
    client._rest_client.session.event_hooks["response"] += [_wait, _receive]
    return client


def _wait(response: Any) -> None:
    """Wait for as long as the registry asks, before the client retries."""
    seconds = response.headers.get("retry-after", "")
    if response.status_code == HTTPStatus.TOO_MANY_REQUESTS and seconds.isdecimal():
        time.sleep(min(int(seconds[:9]), _MAX_WAIT_SECONDS))


def _receive(response: Any) -> None:
    """Read an answer in bounded time and memory; raise an `OverflowError` if it is longer."""
    content, until = bytearray(), time.monotonic() + _MAX_ANSWER_SECONDS
    for part in response.iter_bytes():
        content += part
        if len(content) > _MAX_ANSWER_BYTES or time.monotonic() > until:
            raise OverflowError(f"more than {_MAX_ANSWER_BYTES} bytes or {_MAX_ANSWER_SECONDS} s")
    response._content = bytes(content)  # what `response.read()` would have kept


def _without_login(address: SplitResult) -> str:
    return address._replace(netloc=address.netloc.rpartition("@")[2]).geturl()


class _Known(NamedTuple):
    """What is kept of a schema."""

    read: ReadPayload | Rejection
    characters: int = _MIN_CHARACTERS


class RegistryDecoder:
    """Decodes payloads that begin with the id of their schema: a zero byte, and four bytes of the id."""

    def __init__(self, registry: SchemaRegistry, parse: ParseSchema, kind: str, fmt: str | None = None) -> None:
        """Decode the `key` or the `value` of messages, by schemas that the registry gives in this format."""
        self._registry = registry
        self._parse = parse
        self._kind = kind
        self._fmt = fmt
        self._known = FIFOCache[int, _Known](_MAX_KEPT_CHARACTERS, lambda known: known.characters)

    def rule(self, payload: bytes) -> str:
        """Return which schema a payload names."""
        return f"schema {_schema_id(payload)}"

    def decode(self, payload: bytes, _headers: Headers, budget: Budget) -> Decoded | Rejection:
        """Return a payload as JSON, or why that cannot be.

        Raises:
            RegistryError: the registry did not answer, or refused the client.
        """
        schema_id = _schema_id(payload)
        if len(payload) < _HEADER_BYTES or payload[0] != _MAGIC or schema_id == 0:
            return _without_id(self._kind, payload)
        known = self._known.get(schema_id) or self._ask(schema_id)
        if isinstance(known.read, Rejection):
            return known.read
        return Decoded(known.read(payload[_HEADER_BYTES:], budget), b'{"id":%d}' % schema_id)

    def _ask(self, schema_id: int) -> _Known:
        fault: str | None = None
        with _locked:
            try:
                fault = unknown_ids[self, schema_id]  # `get` could meet its end between two looks at the clock
            except KeyError:
                if len(unknown_ids) == MAX_UNKNOWN:
                    fault = f"did not have {MAX_UNKNOWN} other schemas within a minute and was not asked for"
        if fault is None:
            try:
                texts = self._registry.texts(schema_id, self._fmt)
                known = _Known(self._parse(texts), max(sum(map(len, texts.values())), _MIN_CHARACTERS))
            except RegistryError:
                raise
            except UnknownSchemaError as error:
                fault = str(error)
                with _locked:
                    unknown_ids[self, schema_id] = fault
            except Exception as error:  # noqa: BLE001 - parsers raise what their code meets in hostile schemas
                clause = error if isinstance(error, UnsafeSchemaError) else f"it is malformed ({type(error).__name__})"
                detail = f"schema {schema_id} of the {self._kind} cannot be used: {clause}"
                known = _Known(Rejection("unusable-schema", detail))
        if fault is not None:
            return _Known(Rejection("unknown-schema", f"the registry {fault} schema {schema_id} of the {self._kind}"))
        with _locked:
            self._known[schema_id] = known
        return known


_locked = threading.Lock()
"""Two bulk operations in the API server share the decoders, and cachetools' caches are for one thread."""
unknown_ids: Final[TTLCache[tuple[RegistryDecoder, int], str]] = TTLCache(MAX_UNKNOWN, ttl=60)
"""What no registry had when this process asked, for a minute: each as a clause without its subject."""


def _schema_id(payload: bytes) -> int:
    return int.from_bytes(payload[1:_HEADER_BYTES], "big")


def _without_id(kind: str, payload: bytes) -> Rejection:
    found = recognize(payload)
    if payload.lstrip().startswith((b"{", b"[")):
        found = f"JSON: set {'format: json' if kind == 'value' else 'key_format: text'} in the trigger"
    lacking = f"the {kind} does not begin with a zero byte and the four bytes of a schema's id"
    return Rejection("no-schema-id", lacking if found is None else f"{lacking}; it is {found}")
