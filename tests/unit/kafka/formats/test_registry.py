"""The registry's client: TLS by a private authority, a login, and errors that repeat no password."""

from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from local_stack.certificates import Authority
from local_stack.loopback_server import LoopbackServer, Request
from workorders.core.exceptions import ConfigurationError
from workorders.kafka.exceptions import RegistryRefusedError, RegistryUnavailableError
from workorders.kafka.formats.registry import SchemaRegistry, UnknownSchemaError

PASSWORD = "correct horse battery staple"
LOGIN = f"ann:{PASSWORD}"


def answer(request: Request) -> tuple[int, bytes]:
    """Have the schema 1, and ask for a login."""
    expected = f"Basic {b64encode(LOGIN.encode()).decode()}"
    body: dict[str, Any]
    status, body = 200, {"schema": '"string"'}
    if request.headers.get("authorization") != expected:
        status, body = 401, {"error_code": 40101, "message": "Unauthorized"}
    elif "/ids/1" not in request.path:
        status, body = (404, {"error_code": 40403, "message": "none"}) if "/ids/2" in request.path else (503, {})
    return status, orjson.dumps([] if "/versions" in request.path else body)


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


def test_an_answer_that_helps_nobody_is_an_outage(settings: dict[str, Any]) -> None:
    with pytest.raises(RegistryUnavailableError, match="answered 503"):
        SchemaRegistry(settings).schema(3)


def test_settings_of_which_no_client_can_be_made_are_refused_without_a_quote(settings: dict[str, Any]) -> None:
    url = f"https://{LOGIN.replace(' ', '')}@127.0.0.1"
    with pytest.raises(ConfigurationError, match=r"the schema registry https://127\.0\.0\.1 ") as raised:
        SchemaRegistry({**settings, "url": url})
    assert "staple" not in str(raised.value)
