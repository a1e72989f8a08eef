"""Certificates and keys in every form that people keep them in become texts that both clients read on any machine."""

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.serialization import PrivateFormat
from cryptography.hazmat.primitives.serialization.pkcs12 import PBES

from local_stack.certificates import Authority, Certificate
from workorders.kafka.client.certificates import as_texts
from workorders.kafka.client.new_client import new_client
from workorders.kafka.exceptions import ClientSettingsError

SSL = {"bootstrap.servers": "a:1", "security.protocol": "ssl"}
PASSWORD = "t0p-secret"
FILES = ("ssl.ca", "ssl.certificate", "ssl.key")
AUTHORITY = Authority.create("root")
CLIENT = AUTHORITY.intermediate("intermediate").client("client")


def texts(client: Certificate = CLIENT) -> dict[str, str]:
    """What every form becomes."""
    return {"ssl.certificate.pem": client.chain, "ssl.key.pem": client.key()}


def refusal(settings: dict[str, str]) -> str:
    with pytest.raises(ClientSettingsError) as refused:
        as_texts({**SSL, **settings})
    sentence = str(refused.value)
    assert PASSWORD not in sentence
    assert "BEGIN" not in sentence
    assert sentence.startswith("Kafka at a:1 was not asked, because its client cannot start with the settings")
    return sentence


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """A connection that names files."""
    given = {}
    for name, text in zip(FILES, (AUTHORITY.pem, CLIENT.chain, CLIENT.key()), strict=True):
        path = tmp_path / f"{name}.pem"
        path.write_text(text)
        given[f"{name}.location"] = str(path)
    return given


def test_a_client_starts_where_none_of_the_files_is(files: dict[str, str]) -> None:
    settings = as_texts({**SSL, **files})
    for path in files.values():
        Path(path).unlink()
    assert settings == {**SSL, "ssl.ca.pem": AUTHORITY.pem, **texts()}
    assert isinstance(new_client(AdminClient, settings), AdminClient)
    assert as_texts(settings) == settings


@pytest.mark.parametrize(
    ("key", "password"),
    [
        (CLIENT.key(), None),
        (CLIENT.key(), PASSWORD),
        (CLIENT.key(PASSWORD), PASSWORD),
        (CLIENT.key(form=PrivateFormat.TraditionalOpenSSL), None),
        (CLIENT.key(PASSWORD, PrivateFormat.TraditionalOpenSSL), PASSWORD),
    ],
    ids=["pkcs8", "pkcs8-needless-password", "pkcs8-encrypted", "pkcs1", "pkcs1-encrypted"],
)
def test_a_key_becomes_pkcs8_without_a_password(key: str, password: str | None) -> None:
    given = {**SSL, "ssl.certificate.pem": CLIENT.chain, "ssl.key.pem": key}
    assert as_texts({**given, **({"ssl.key.password": password} if password else {})}) == {**SSL, **texts()}


@pytest.mark.parametrize("old", [False, True], ids=["aes", "3des"])
def test_a_pkcs12_keystore_becomes_a_chain_and_a_key(tmp_path: Path, old: bool) -> None:
    by = (
        PrivateFormat.PKCS12.encryption_builder()
        .key_cert_algorithm(PBES.PBESv1SHA1And3KeyTripleDESCBC)
        .hmac_hash(SHA1())
        .build(PASSWORD.encode())
    )
    store = tmp_path / "client.p12"
    store.write_bytes(CLIENT.keystore(PASSWORD, by if old else None))
    given = {"ssl.keystore.location": str(store), "ssl.keystore.password": PASSWORD}
    assert as_texts({**SSL, **given}) == {**SSL, **texts()}


def test_what_cannot_be_read_is_named_with_what_to_do(tmp_path: Path, files: dict[str, str]) -> None:
    not_text, empty = tmp_path / "ca.der", tmp_path / "empty.p12"
    not_text.write_bytes(b"\xff\xfe")
    empty.write_bytes(b"")
    pair = {"ssl.certificate.pem": CLIENT.chain, "ssl.key.pem": CLIENT.key(PASSWORD)}
    store = {"ssl.keystore.location": str(empty), "ssl.keystore.password": PASSWORD}
    expected = [
        ({"ssl.ca.location": "/nowhere/ca.pem"}, "ssl.ca.location names /nowhere/ca.pem, which is not on this machine"),
        ({"ssl.ca.location": str(tmp_path)}, "which cannot be read: Is a directory"),
        ({"ssl.ca.location": str(not_text)}, "ca.der of ssl.ca.location is not text in PEM form"),
        ({"ssl.keystore.location": "/nowhere/c.p12"}, "ssl.keystore.location names /nowhere/c.p12, which is not on"),
        (store, "empty.p12 of ssl.keystore.location is no PKCS#12 keystore, or ssl.keystore.password is not its own"),
        (pair, "the key of ssl.key is encrypted, and ssl.key.password is missing"),
        ({**pair, "ssl.key.password": "wrong"}, "ssl.key.password does not open the key of ssl.key"),
        ({**pair, "ssl.key.pem": "rubbish"}, "ssl.key is no private key in PEM form"),
        ({"ssl.key.pem": CLIENT.key()}, "ssl.key is given without ssl.certificate"),
        ({"ssl.certificate.pem": CLIENT.chain}, "ssl.certificate is given without ssl.key"),
    ]
    for settings, part in expected:
        sentence = refusal(settings)
        assert part in sentence
        assert sentence.endswith(". Correct the connection. [WO-KAFKA-SETTINGS]")


def test_only_files_of_the_protocol_that_is_used_are_read(files: dict[str, str]) -> None:
    plain = {"bootstrap.servers": "a:1", "ssl.ca.location": "/nowhere/ca.pem", "https.ca.location": "/nowhere/ca.pem"}
    assert as_texts(plain) == plain
    login = {"security.protocol": "SASL_PLAINTEXT", "ssl.ca.location": "/nowhere/ca.pem"}
    endpoint = {"https.ca.location": files["ssl.ca.location"]}
    assert as_texts({**login, **endpoint}) == {**login, "https.ca.pem": AUTHORITY.pem}


def test_the_authorities_of_the_system_stay_with_it() -> None:
    probe = {**SSL, "ssl.ca.location": "probe"}
    assert as_texts(probe) == probe
