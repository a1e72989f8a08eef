"""The executors' client needs none of the files that the worker's connection names."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from workorders.core.exceptions import ConfigurationError
from workorders.kafka.client.new_client import new_client
from workorders.kafka.client.settings import client_settings, executor_settings

FILES = ("ssl.ca", "ssl.certificate", "ssl.key")


@pytest.fixture
def connection(tmp_path: Path) -> dict[str, str]:
    """A connection with a certificate authority of its own and a client's certificate, all in files."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    pkcs8 = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    texts = (certificate, certificate * 2, key.private_bytes(serialization.Encoding.PEM, *pkcs8))
    given = {"bootstrap.servers": "a:1", "security.protocol": "SSL"}
    for setting, text in zip(FILES, texts, strict=True):
        path = tmp_path / f"{setting}.pem"
        path.write_bytes(text)
        given[f"{setting}.location"] = str(path)
    return given


def test_a_client_starts_where_none_of_the_files_is(connection: dict[str, str]) -> None:
    settings = executor_settings(connection)
    for setting in FILES:
        path = Path(connection[f"{setting}.location"])
        assert settings[f"{setting}.pem"] == path.read_text()
        assert f"{setting}.location" not in settings
        path.unlink()
    assert isinstance(new_client(AdminClient, settings), AdminClient)


def test_a_file_that_is_not_here_either_is_named(connection: dict[str, str]) -> None:
    Path(connection["ssl.key.location"]).unlink()
    with pytest.raises(ConfigurationError, match=r"ssl\.key\.pem that the Kafka connection names cannot be read"):
        executor_settings(connection)


def test_without_tls_no_file_is_read_and_a_keystore_stays_a_path() -> None:
    plain = {"bootstrap.servers": "a:1", "ssl.ca.location": "/nowhere/ca.pem"}
    assert executor_settings(plain) == client_settings(plain)
    keystore = {"security.protocol": "sasl_ssl", "ssl.keystore.location": "/there/client.p12"}
    assert executor_settings(keystore) == client_settings(keystore)
