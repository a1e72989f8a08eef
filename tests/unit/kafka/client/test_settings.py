from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from workorders.core.exceptions import ConfigurationError
from workorders.kafka.client.settings import client_settings, java_settings

CA = "-----BEGIN CERTIFICATE-----\nca\n-----END CERTIFICATE-----\n"
CHAIN = "-----BEGIN CERTIFICATE-----\nclient\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nkey\n-----END PRIVATE KEY-----\n"
LOCKED_KEY = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nkey\n-----END ENCRYPTED PRIVATE KEY-----\n"
OLD_KEY = "-----BEGIN RSA PRIVATE KEY-----\nkey\n-----END RSA PRIVATE KEY-----\n"
SASL = {"bootstrap.servers": "b:1", "security.protocol": "sasl_ssl", "sasl.username": "u", "sasl.password": "p"}
SSL = {"bootstrap.servers": "b:1", "security.protocol": "ssl"}

Derived = Callable[[Mapping[str, Any]], dict[str, str]]


def refusal(settings: dict[str, str]) -> str:
    with pytest.raises(ConfigurationError) as refused:
        java_settings(settings)
    return str(refused.value)


def test_java_reads_committed_messages_whatever_the_connection_sets() -> None:
    assert java_settings({"bootstrap.servers": "a:1,b:2", "isolation.level": "read_uncommitted", "group.id": "g"}) == {
        "bootstrap.servers": "a:1,b:2",
        "security.protocol": "PLAINTEXT",
        "isolation.level": "read_committed",
    }


def test_twins_are_passed_on_under_their_other_names() -> None:
    found = java_settings(
        {
            "metadata.broker.list": "b:1",
            "client.id": "c",
            "socket.timeout.ms": 9000,
            "fetch.wait.max.ms": "50",
            "max.partition.fetch.bytes": "1000",
            "check.crcs": True,
        }
    )
    assert found == {
        "bootstrap.servers": "b:1",
        "client.id": "c",
        "request.timeout.ms": "9000",
        "fetch.max.wait.ms": "50",
        "max.partition.fetch.bytes": "1000",
        "check.crcs": "true",
        "security.protocol": "PLAINTEXT",
        "isolation.level": "read_committed",
    }


def test_settings_of_librdkafka_alone_are_left_out() -> None:
    only = {"debug": "all", "queued.min.messages": "1", "auto.offset.reset": "latest", "enable.auto.commit": "true"}
    assert java_settings({"bootstrap.servers": "b:1", **only, "error_cb": "a.b"}) == java_settings(
        {"bootstrap.servers": "b:1"}
    )


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [
        ("PLAIN", "org.apache.kafka.common.security.plain.PlainLoginModule"),
        ("SCRAM-SHA-256", "org.apache.kafka.common.security.scram.ScramLoginModule"),
        ("scram-sha-512", "org.apache.kafka.common.security.scram.ScramLoginModule"),
    ],
)
@pytest.mark.parametrize("name", ["sasl.mechanism", "sasl.mechanisms"])
def test_a_password_becomes_a_login_module(mechanism: str, module: str, name: str) -> None:
    found = java_settings({**SASL, name: mechanism})
    assert found["security.protocol"] == "SASL_SSL"
    assert found["sasl.mechanism"] == mechanism.upper()
    assert found["sasl.jaas.config"] == f'{module} required username="u" password="p";'
    assert not {"sasl.username", "sasl.password", "sasl.mechanisms"} & set(found)


def test_a_password_cannot_break_out_of_its_quotes() -> None:
    found = java_settings({**SASL, "sasl.mechanisms": "PLAIN", "sasl.password": 'a"b\\c; d="\n\té'})
    assert found["sasl.jaas.config"].endswith(r'password="a\"b\\c; d=\"\012\011é";')


def test_oauth_becomes_a_login_module_with_its_endpoint() -> None:
    found = java_settings(
        {
            "bootstrap.servers": "b:1",
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "id",
            "sasl.oauthbearer.client.secret": "secret",
            "sasl.oauthbearer.scope": "kafka",
            "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,identityPoolId=pool-2",
            "sasl.oauthbearer.token.endpoint.url": "https://login/token",
        }
    )
    package = "org.apache.kafka.common.security.oauthbearer"
    assert found["sasl.jaas.config"] == (
        f'{package}.OAuthBearerLoginModule required clientId="id" clientSecret="secret" scope="kafka" '
        f'extension_logicalCluster="lkc-1" extension_identityPoolId="pool-2";'
    )
    assert found["sasl.login.callback.handler.class"] == f"{package}.OAuthBearerLoginCallbackHandler"
    assert found["sasl.oauthbearer.token.endpoint.url"] == "https://login/token"


def test_certificates_travel_as_text_whether_given_as_files_or_texts(tmp_path: Path) -> None:
    for name, text in {"ca.pem": CA, "client.pem": CHAIN, "client.key": LOCKED_KEY}.items():
        (tmp_path / name).write_text(text)
    files = {
        "ssl.ca.location": str(tmp_path / "ca.pem"),
        "ssl.certificate.location": str(tmp_path / "client.pem"),
        "ssl.key.location": str(tmp_path / "client.key"),
    }
    texts = {"ssl.ca.pem": CA, "ssl.certificate.pem": CHAIN, "ssl.key.pem": LOCKED_KEY}
    expected = {
        "bootstrap.servers": "b:1",
        "security.protocol": "SSL",
        "isolation.level": "read_committed",
        "ssl.endpoint.identification.algorithm": "https",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": CA,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": CHAIN,
        "ssl.keystore.key": LOCKED_KEY,
        "ssl.key.password": "p",
    }
    assert java_settings({**SSL, **files, "ssl.key.password": "p"}) == expected
    assert java_settings({**SSL, **texts, "ssl.key.password": "p"}) == expected


def test_a_key_without_a_password_gets_none() -> None:
    found = java_settings({**SSL, "ssl.certificate.pem": CHAIN, "ssl.key.pem": KEY, "ssl.key.password": "p"})
    assert "ssl.key.password" not in found


def test_a_pkcs12_keystore_is_named_as_such() -> None:
    found = java_settings({**SSL, "ssl.keystore.location": "/k.p12", "ssl.keystore.password": "p"})
    assert found["ssl.keystore.type"] == "PKCS12"
    assert (found["ssl.keystore.location"], found["ssl.keystore.password"]) == ("/k.p12", "p")


def test_the_host_name_is_checked_unless_the_connection_sets_none() -> None:
    assert java_settings(SSL)["ssl.endpoint.identification.algorithm"] == "https"
    none = java_settings({**SSL, "ssl.endpoint.identification.algorithm": "none"})
    assert none["ssl.endpoint.identification.algorithm"] == ""


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({**SSL, "enable.ssl.certificate.verification": "false"}, "enable.ssl.certificate.verification=false"),
        ({**SSL, "ssl.crl.location": "/crl"}, "ssl.crl.location in the Kafka connection has no form"),
        ({**SSL, "ssl.ca.certificate.stores": "Root"}, "ssl.ca.certificate.stores in the Kafka connection"),
        ({**SSL, "ssl.key.pem": KEY}, "ssl.certificate.location or ssl.certificate.pem"),
        ({**SSL, "ssl.certificate.pem": CHAIN}, "ssl.key.location or ssl.key.pem"),
        ({**SSL, "ssl.certificate.pem": CHAIN, "ssl.key.pem": OLD_KEY}, "openssl pkcs8 -topk8"),
        ({**SSL, "ssl.ca.location": "/no/such/file"}, "/no/such/file"),
        (SASL, "sasl.mechanisms=GSSAPI in the Kafka connection (GSSAPI if not given)"),
        ({**SASL, "sasl.mechanisms": "PLAIN", "sasl.password": ""}, "lacks sasl.password"),
        ({**SASL, "sasl.mechanisms": "OAUTHBEARER"}, "sasl.oauthbearer.method=default"),
    ],
)
def test_what_would_change_who_is_trusted_is_refused(settings: dict[str, str], part: str) -> None:
    sentence = refusal(settings)
    assert part in sentence
    assert "BEGIN" not in sentence


@pytest.mark.parametrize("protocol", ["ssl", "sasl_ssl", "plaintext"])
@pytest.mark.parametrize("value", [False, "false", "False", "f", "0"])
@pytest.mark.parametrize("derived", [client_settings, java_settings])
def test_no_client_may_trust_every_server(derived: Derived, protocol: str, value: object) -> None:
    given = {**SASL, "security.protocol": protocol, "sasl.mechanisms": "PLAIN"}
    with pytest.raises(ConfigurationError, match="it trusts every server"):
        derived({**given, "enable.ssl.certificate.verification": value})
    derived({**given, "enable.ssl.certificate.verification": True})


def test_settings_of_a_protocol_that_is_not_used_have_no_effect() -> None:
    assert java_settings({"bootstrap.servers": "b:1", "ssl.crl.location": "/crl", "sasl.username": "u"}) == {
        "bootstrap.servers": "b:1",
        "security.protocol": "PLAINTEXT",
        "isolation.level": "read_committed",
    }


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ca.der").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match=r"ca\.der .* it is not text in PEM form"):
        java_settings({**SSL, "ssl.ca.location": str(tmp_path / "ca.der")})


def test_an_administration_client_gets_nothing_that_it_would_warn_about() -> None:
    assert client_settings(
        {
            "bootstrap.servers": "b:1",
            "group.id": "g",
            "isolation.level": "read_uncommitted",
            "max.partition.fetch.bytes": "1",
            "enable.auto.commit": True,
            "error_cb": "a.b",
            "sasl.mechanism": "PLAIN",
            "socket.keepalive.enable": True,
            "socket.timeout.ms": 5,
        }
    ) == {
        "bootstrap.servers": "b:1",
        "sasl.mechanisms": "PLAIN",
        "socket.keepalive.enable": "true",
        "socket.timeout.ms": "5",
    }
