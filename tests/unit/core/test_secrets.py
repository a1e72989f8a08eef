import pytest

from workorders.core.secrets import assigns_secret, is_secret_header, is_secret_setting, is_secret_variable

EVERYWHERE = [
    "password",
    "db.passwd",
    "ssl.key.passphrase",
    "client_secret",
    "x-token",
    "api-key",
    "apikey",
    "ACCESS_KEY",
]
"""Parts of names that are secrets wherever they are used."""


@pytest.mark.parametrize("name", EVERYWHERE)
def test_a_name_of_a_secret_is_known_everywhere(name: str) -> None:
    assert is_secret_setting(name)
    assert is_secret_variable(name)
    assert is_secret_header(name)


@pytest.mark.parametrize(
    "header", ["Authorization", "set-cookie", "x-hub-signature-256", "X-CSRF-Token", "proxy-authorization", "session"]
)
def test_a_header_that_proves_who_calls_is_a_secret(header: str) -> None:
    assert is_secret_header(header)


@pytest.mark.parametrize(
    "header", ["traceparent", "idempotency-key", "content-type", "x-request-id", "author", "x-author-id", "", "\ufffd"]
)
def test_other_headers_are_no_secrets(header: str) -> None:
    assert not is_secret_header(header)


@pytest.mark.parametrize(
    "name", ["sasl.password", "sasl.jaas.config", "sasl.oauthbearer.config", "ssl.key.pem", "ssl_key"]
)
def test_settings_of_kafka_clients_with_credentials_are_secrets(name: str) -> None:
    assert is_secret_setting(name)


@pytest.mark.parametrize(
    "name",
    ["ssl.key.location", "spark.sql.session.timeZone", "spark.hadoop.fs.s3a.aws.credentials.provider", "client.id"],
)
def test_settings_that_only_sound_like_it_are_no_secrets(name: str) -> None:
    assert not is_secret_setting(name)


def test_an_option_that_gives_a_secret_its_value_is_known() -> None:
    assert assigns_secret("-Xmx1g -Djavax.net.ssl.keyStorePassword=hunter2")
    assert not assigns_secret("-Dlog4j2.level=WARN -XX:+UseSerialGC")
