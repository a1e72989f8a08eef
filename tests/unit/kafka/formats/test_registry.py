"""The registry's client: TLS by a private authority, a login, and errors that repeat no password."""

import time
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from local_stack.certificates import Authority
from local_stack.loopback_server import LoopbackServer, Request
from support.schema_registry import Registered
from workorders.core.exceptions import ConfigurationError
from workorders.kafka.exceptions import RegistryRefusedError, RegistryUnavailableError
from workorders.kafka.formats.decoded import UnsafeSchemaError
from workorders.kafka.formats.registry import SchemaRegistry, UnknownSchemaError

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


ANSWERS = {
    "1": (200, b'{"schema": "\\"string\\""}'),
    "2": (404, b'{"error_code": 40403, "message": "none"}'),
    "3": (503, b"{}"),
    "4": (404, b"<html>" + b"no such page" * 100),
    "5": (404, b'{"message": "no Route matched with those values"}'),
    "6": (200, b"<html>sign in</html>"),
    "7": (200, b'{"status": "ok"}'),
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
    assert registry.schema(1).schema_str == '"string"'
    assert orjson.loads(registry.registration(1, "orders-value")) == {"id": 1, "subject": None, "version": None}
    assert orjson.loads(registry.registration(8, "orders-value")) == {"id": 8, "subject": None, "version": None}
    with pytest.raises(UnknownSchemaError):
        registry.schema(2)


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
        SchemaRegistry(given).schema(1)
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
    ],
    ids=["error", "page", "gateway", "sign in", "another service"],
)
def test_an_answer_that_is_not_the_registrys_is_an_outage_and_no_verdict(
    settings: dict[str, Any], schema_id: int, words: str
) -> None:
    with pytest.raises(RegistryUnavailableError) as raised:
        SchemaRegistry(settings).schema(schema_id)
    assert str(raised.value).startswith(f"the schema registry {settings['url']} {words}")
    assert len(str(raised.value)) < 500


def test_a_registry_that_is_asked_too_often_is_asked_again_when_it_says(settings: dict[str, Any]) -> None:
    assert SchemaRegistry({**settings, "max.retries": 1}).schema(9).schema_str == '"string"'
    first, second = asked_at
    assert second - first >= 2


def layers(count: int, width: int) -> Registered:
    """Return a registry whose schema refers to all of a layer, and each of these to all of the next one."""
    names = [[f"{layer}-{place}" for place in range(width)] for layer in range(count)]
    below = {name: ("{}", inner) for layer, inner in zip(names, [*names[1:], []], strict=True) for name in layer}
    return Registered("{}", below, names[0])


def test_each_schema_that_others_refer_to_is_got_once() -> None:
    registry = layers(20, 2)
    assert list(registry.texts(1, "main"))[-1] == "main"
    assert registry.asked == 41


@pytest.mark.parametrize(("registry", "requests"), [(layers(200, 1), 21), (layers(1, 200), 101)], ids=["deep", "many"])
def test_a_schema_that_refers_to_very_many_others_is_not_used(registry: Registered, requests: int) -> None:
    with pytest.raises(UnsafeSchemaError, match="it refers to more than 100 schemas, or in more than 20 steps"):
        registry.texts(1)
    assert registry.asked == requests


def test_settings_of_which_no_client_can_be_made_are_refused_without_a_quote(settings: dict[str, Any]) -> None:
    url = f"https://{LOGIN.replace(' ', '')}@127.0.0.1"
    with pytest.raises(ConfigurationError, match=r"the schema registry https://127\.0\.0\.1 ") as raised:
        SchemaRegistry({**settings, "url": url})
    assert "staple" not in str(raised.value)
