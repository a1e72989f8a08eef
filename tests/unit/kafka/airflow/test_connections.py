"""What connections of Airflow become: those of Kafka as by Airflow's own hook, and those of schema registries."""

import asyncio
import json
from typing import Any

import pytest
from airflow.providers.apache.kafka.hooks.base import KafkaBaseHook

from workorders.core.exceptions import ConfigurationError
from workorders.kafka.airflow.connections import async_kafka_settings, kafka_settings, registry_settings
from workorders.kafka.client.token_providers import GOOGLE, MSK_IAM

AMAZON = "b-1.orders.abc.c2.kafka.eu-west-1.amazonaws.com:9098,b-2.orders.abc.c2.kafka.eu-west-1.amazonaws.com:9098"
GOOGLES = "bootstrap.orders.europe-west1.managedkafka.shop.cloud.goog:9092"
TOKENS = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}


def settings(monkeypatch: pytest.MonkeyPatch, **extra: Any) -> dict[str, Any]:
    """Return the settings of a connection, which are the same for tasks and for the triggerer."""
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": extra}))
    found = kafka_settings("kafka_default")
    assert asyncio.run(async_kafka_settings("kafka_default")) == found
    return found


def test_a_connection_without_functions_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for extra in (
        {"bootstrap.servers": "b:1", "java": {"client.id": "c"}},
        {"bootstrap.servers": AMAZON, "sasl.mechanism": "SCRAM-SHA-512"},
        {"bootstrap.servers": "b:1", **TOKENS},
        {"bootstrap.servers": GOOGLES, **TOKENS, "sasl.oauthbearer.method": "oidc"},
    ):
        assert settings(monkeypatch, **extra) == extra


@pytest.mark.parametrize("name", ["sasl.mechanism", "sasl.mechanisms"])
def test_amazon_and_google_are_recognized_by_their_addresses(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    given = {"security.protocol": "SASL_SSL", name: "OAUTHBEARER"}
    amazon = {"oauth_cb": MSK_IAM, "sasl.oauthbearer.config": "region=eu-west-1"}
    assert settings(monkeypatch, **given, **{"bootstrap.servers": AMAZON}) == {
        **given, "bootstrap.servers": AMAZON, **amazon
    }  # fmt: skip
    googles = {**given, "bootstrap.servers": GOOGLES}
    assert settings(monkeypatch, **googles) == {**googles, "oauth_cb": GOOGLE}


def test_a_function_that_airflow_does_not_allow_is_refused_by_us_and_by_airflows_hook(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    extra = {"bootstrap.servers": "b:1", **TOKENS, "oauth_cb": "support.given_token.token"}
    monkeypatch.delenv("AIRFLOW__APACHE_KAFKA__CALLBACK_ALLOWLIST", raising=False)
    with pytest.raises(
        ConfigurationError, match=r"kafka_default has oauth_cb=.* Kafka was not asked\. Add the name to"
    ):
        settings(monkeypatch, **extra)
    with pytest.raises(ValueError, match="Refusing to resolve Kafka callback"):
        KafkaBaseHook("kafka_default")._build_config()
    monkeypatch.setenv("AIRFLOW__APACHE_KAFKA__CALLBACK_ALLOWLIST", "a.b, support.given_token.token")
    assert settings(monkeypatch, **extra) == extra
    assert callable(KafkaBaseHook("kafka_default")._build_config()["oauth_cb"])


@pytest.mark.parametrize(
    ("connection", "expected"),
    [
        ({"host": "registry", "port": 8081}, {"url": "https://registry:8081"}),
        ({"host": "registry", "schema": "http"}, {"url": "http://registry"}),
        ({"port": 8081, "login": "ann"}, {"url": "http://localhost:8081", "basic.auth.user.info": "ann:"}),
        ({"host": "registry", "schema": "https"}, {"url": "https://registry"}),
        (
            {"host": "https://registry/apis/ccompat/v7", "login": "ann", "password": "x:y", "extra": {"timeout": 3}},
            {"url": "https://registry/apis/ccompat/v7", "basic.auth.user.info": "ann:x:y", "timeout": 3},
        ),
        (
            {"extra": {"url": "https://a,https://b", "ssl.ca.pem": "PEM"}},
            {"url": "https://a,https://b", "ssl.ca.pem": "PEM"},
        ),
    ],
    ids=["port", "plain", "this machine", "tls", "path and login", "extra"],
)
def test_a_connection_of_a_registry_becomes_settings_of_its_client(
    monkeypatch: pytest.MonkeyPatch, connection: dict[str, Any], expected: dict[str, Any]
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_REGISTRY", json.dumps({"conn_type": "http", **connection}))
    assert registry_settings("registry") == expected
