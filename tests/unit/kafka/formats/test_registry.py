"""The registry's client: TLS by a private authority, a login, and errors that repeat no password."""

import gzip
import socket
import threading
import time
import tracemalloc
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import orjson
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference

from local_stack.certificates import Authority
from local_stack.loopback_server import LoopbackServer, Request
from support.schema_registry import Registered, decode, framed
from workorders.core.exceptions import ConfigurationError
from workorders.core.items import Rejection
from workorders.kafka.exceptions import RegistryRefusedError, RegistryUnavailableError
from workorders.kafka.formats import avro
from workorders.kafka.formats import registry as registry_module
from workorders.kafka.formats.decoded import UnsafeSchemaError
from workorders.kafka.formats.registry import RegistryDecoder, SchemaRegistry, UnknownSchemaError

PASSWORD = "correct horse battery staple"
LOGIN = f"ann:{PASSWORD}"


asked_at = list[float]()


def answer(request: Request) -> tuple[int, bytes] | tuple[int, bytes, dict[str, str]]:
    """Have the schema 1, ask for a login, and answer for other ids as what is not a registry does."""
    expected = f"Basic {b64encode(LOGIN.encode()).decode()}"
    if request.headers.get("authorization") != expected:
        return 401, orjson.dumps({"error_code": 40101, "message": "Unauthorized"})
    if "/ids/9" in request.path:
        asked_at.append(time.monotonic())
        return (429, b"{}", {"Retry-After": "2"}) if len(asked_at) == 1 else ANSWERS["1"]
    if "/versions" in request.path:
        return (404, b"<html>") if "/ids/8" in request.path else (200, b"[]")
    return ANSWERS.get(request.path.partition("?")[0].rpartition("/")[2], (503, b"{}"))


ANSWERS: dict[str, tuple[int, bytes] | tuple[int, bytes, dict[str, str]]] = {
    "1": (200, b'{"schema": "\\"string\\""}'),
    "2": (404, b'{"error_code": 40403, "message": "none"}'),
    "3": (503, b"{}"),
    "4": (404, b"<html>" + b"no such page" * 100),
    "5": (404, b'{"message": "no Route matched with those values"}'),
    "6": (200, b"<html>sign in</html>"),
    "7": (200, b'{"status": "ok"}'),
    "10": (302, b"", {"Location": "1"}),
}


@pytest.fixture(scope="module")
def settings() -> Iterator[dict[str, Any]]:
    authority = Authority.create("a private authority")
    with LoopbackServer(answer, authority.server().server_context()) as server:
        yield {
            "url": f"{server.url}/path",
            "basic.auth.user.info": LOGIN,
            "ssl.ca.pem": authority.pem,
            "max.retries": 0,
        }


def test_a_schema_is_got_with_a_login_and_the_text_of_an_authority(settings: dict[str, Any]) -> None:
    registry = SchemaRegistry(settings)
    assert registry.texts(1) == {"": '"string"'}
    with pytest.raises(UnknownSchemaError):
        registry.texts(2)


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"basic.auth.user.info": "ann:wrong"}, RegistryRefusedError, "answered 401: Unauthorized"),
        ({"ssl.ca.pem": None}, RegistryUnavailableError, "CERTIFICATE_VERIFY_FAILED"),
        ({"url": "https://127.0.0.1:1"}, RegistryUnavailableError, "ConnectError"),
    ],
    ids=["login", "authority", "address"],
)
def test_a_registry_that_cannot_be_asked_is_an_error_with_its_cause_and_without_the_password(
    settings: dict[str, Any], changed: dict[str, Any], error: type[Exception], words: str
) -> None:
    given = {name: value for name, value in {**settings, **changed}.items() if value is not None}
    with pytest.raises(error) as raised:
        SchemaRegistry(given).texts(1)
    assert words in str(raised.value)
    assert PASSWORD not in repr(raised.value)
    assert raised.value.__cause__ is None


@pytest.mark.parametrize(
    ("schema_id", "words"),
    [
        (3, "answered 503: no reason; nothing was committed there."),
        (4, "answered 404: Unknown Schema Registry Error: b'<html>no such page"),
        (5, "answered 404: no Route matched with those values, which is not an answer of a schema registry; nothing"),
        (
            6,
            "answered with something else than a schema (JSONDecodeError), which is not an answer of a schema",
        ),
        (7, "answered with JSON that is not a schema, which is not an answer of a schema registry; nothing was"),
        (10, "answered 302: Unknown Schema Registry Error: b''; nothing was committed there."),
    ],
    ids=["error", "page", "gateway", "sign in", "another service", "redirect"],
)
def test_an_answer_that_is_not_the_registrys_is_an_outage_and_no_verdict(
    settings: dict[str, Any], schema_id: int, words: str
) -> None:
    with pytest.raises(RegistryUnavailableError) as raised:
        SchemaRegistry(settings).texts(schema_id)
    assert str(raised.value).startswith(f"the schema registry {settings['url']} {words}")
    assert len(str(raised.value)) < 500


def test_a_registry_that_is_asked_too_often_is_asked_again_when_it_says(settings: dict[str, Any]) -> None:
    assert SchemaRegistry({**settings, "max.retries": 1}).texts(9) == {"": '"string"'}
    first, second = asked_at
    assert second - first >= 2


@pytest.mark.parametrize(
    ("subjects", "is_registry"),
    [((200, b'["orders-value"]'), True), ((200, b"[]"), False), ((200, b'{"a": 1}'), False), ((403, b"{}"), False)],
    ids=["some", "none", "another service", "refused"],
)
@pytest.mark.parametrize(
    ("status", "body", "fault"),
    [
        (403, {"error_code": 40301, "message": "User is denied operation Read"}, "does not let its client read"),
        (404, {"error_code": 404, "message": "HTTP 404 Not Found"}, "does not have"),
        (422, {}, "does not have"),
    ],
    ids=str,
)
def test_an_answer_about_one_schema_is_no_outage_if_the_registry_shows_others(
    subjects: tuple[int, bytes], is_registry: bool, status: int, body: Any, fault: str
) -> None:
    """Whoever sends a message chooses the id, also one of another team's schema or one that no registry can read."""

    def answer(request: Request) -> tuple[int, bytes]:
        return subjects if "/subjects" in request.path else (status, orjson.dumps(body))

    with LoopbackServer(answer) as server:
        decoder = RegistryDecoder(SchemaRegistry({"url": server.url, "max.retries": 0}), avro.parse, "value")
        message = framed(2**32 - 1, b"")
        if is_registry:
            assert decode(decoder, message) == Rejection(
                "unknown-schema", f"the registry {fault} schema {2**32 - 1} of the value"
            )
        else:
            with pytest.raises(RegistryRefusedError if status == 403 else RegistryUnavailableError):
                decode(decoder, message)


def drip(connection: socket.socket) -> None:
    """Answer with a byte now and then, and never come to an end."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    with suppress(OSError):
        while True:
            connection.sendall(b" ")
            time.sleep(0.05)


def test_an_answer_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "_MAX_ANSWER_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=lambda: drip(server.accept()[0]), daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(RegistryUnavailableError, match=r"did not answer \(OverflowError: more than"):
            SchemaRegistry({"url": url, "max.retries": 0}).texts(1)


def test_an_answer_that_is_far_longer_than_a_schema_is_given_up_before_it_is_in_memory() -> None:
    packed = gzip.compress(b'{"schema": "' + b" " * 2**27 + b'"}')
    with LoopbackServer(lambda _: (200, packed, {"Content-Encoding": "gzip"})) as server:
        tracemalloc.start()
        with pytest.raises(RegistryUnavailableError, match=r"did not answer \(OverflowError: more than"):
            SchemaRegistry({"url": server.url, "max.retries": 0}).texts(1)
        assert tracemalloc.get_traced_memory()[1] < 2**26
        tracemalloc.stop()


def layers(count: int, width: int) -> Registered:
    """Return a registry whose schema refers to all of a layer, and each of these to all of the next one."""
    names = [[f"{layer}-{place}" for place in range(width)] for layer in range(count)]
    below = {name: ("{}", inner) for layer, inner in zip(names, [*names[1:], []], strict=True) for name in layer}
    return Registered("{}", below, names[0])


def test_each_schema_that_others_refer_to_is_got_once() -> None:
    registry = layers(20, 2)
    assert list(registry.texts(1))[-1] == ""
    assert registry.asked == 41


def wide(count: int, text: str) -> Registered:
    """Return a registry whose schema refers to so many others."""
    return Registered("{}", {f"s{place}": (text, []) for place in range(count)})


class OneByManyNames(Registered):
    """Has one schema, to which the other one refers by very many names."""

    def get_schema(self, _schema_id: int, fmt: str | None = None) -> Schema:
        """Return the schema that refers to the other one."""
        self.asked += 1
        return Schema("{}", "AVRO", [SchemaReference(f"n{place}", "s", 1) for place in range(1000)])


@pytest.mark.parametrize(
    ("registry", "requests"),
    [
        (layers(200, 1), 21),
        (layers(1, 200), 101),
        (wide(50, "x" * 2**20), 6),
        (OneByManyNames("{}", {"s": ("{}", [])}), 2),
    ],
    ids=["deep", "many", "long", "names"],
)
def test_a_schema_that_refers_to_very_many_others_is_not_used(registry: Registered, requests: int) -> None:
    with pytest.raises(UnsafeSchemaError, match="it refers to more than 100 schemas, in more than 20 steps, or has"):
        registry.texts(1)
    assert registry.asked == requests


@pytest.mark.parametrize(
    "settings",
    [
        {"url": "http://registry", "basic.auth.user.info": LOGIN},
        {"url": "http://ann:staple@registry"},
        {"url": "https://a,http://b", "basic.auth.user.info": LOGIN},
        {"url": "http://registry", "bearer.auth.token": PASSWORD},
    ],
    ids=["login", "in the address", "of several", "token"],
)
def test_no_login_crosses_the_network_in_plain_text(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="would cross the network in plain text; it was not asked") as raised:
        SchemaRegistry(settings)
    assert "staple" not in str(raised.value)


def test_settings_of_which_no_client_can_be_made_are_refused_without_a_quote(settings: dict[str, Any]) -> None:
    url = f"https://{LOGIN.replace(' ', '')}@127.0.0.1"
    with pytest.raises(ConfigurationError, match=r"the schema registry https://127\.0\.0\.1 ") as raised:
        SchemaRegistry({**settings, "url": url})
    assert "staple" not in str(raised.value)
