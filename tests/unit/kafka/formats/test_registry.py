"""The registry's client: TLS by a private authority, a login, and errors that repeat no password."""

import datetime as dt
import ssl
import threading
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import orjson
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from workorders.core.exceptions import ConfigurationError
from workorders.kafka.exceptions import RegistryRefusedError, RegistryUnavailableError
from workorders.kafka.formats.registry import SchemaRegistry, UnknownSchemaError

PASSWORD = "correct horse battery staple"
LOGIN = f"ann:{PASSWORD}"


class Answers(BaseHTTPRequestHandler):
    """Has the schema 1, and asks for a login."""

    def do_GET(self) -> None:
        expected = f"Basic {b64encode(LOGIN.encode()).decode()}"
        body: dict[str, Any]
        status, body = 200, {"schema": '"string"'}
        if self.headers["Authorization"] != expected:
            status, body = 401, {"error_code": 40101, "message": "Unauthorized"}
        elif "/ids/1" not in self.path:
            status, body = (404, {"error_code": 40403, "message": "none"}) if "/ids/2" in self.path else (503, {})
        data = orjson.dumps([] if "/versions" in self.path else body)
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


def certificate(folder: Path) -> Path:
    """Write a key and a certificate that signs itself, for 127.0.0.1, into one file."""
    key, now = ec.generate_private_key(ec.SECP256R1()), dt.datetime.now(dt.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "registry")])
    address = x509.IPAddress(__import__("ipaddress").ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    file = folder / "registry.pem"
    file.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()) + made.public_bytes(pem)
    )
    return file


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    file = certificate(tmp_path_factory.mktemp("registry"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    text = file.read_text()
    yield {
        "url": f"https://127.0.0.1:{server.server_port}/path",
        "basic.auth.user.info": LOGIN,
        "ssl.ca.pem": text[text.index("-----BEGIN CERT") :],
        "max.retries": 0,
    }
    server.shutdown()


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
