"""From Airflow connections to the settings of clients."""

import json
from typing import Any

import pytest

from workorders.core.exceptions import ConfigurationError
from workorders.kafka.airflow.connections import registry_settings


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


@pytest.mark.parametrize(
    "connection",
    [
        {"host": "registry", "schema": "http", "login": "ann", "password": "x"},
        {"host": "http://ann:x@registry"},
        {"extra": {"url": "https://a,http://b", "basic.auth.user.info": "ann:x"}},
        {"host": "http://registry", "extra": {"bearer.auth.token": "x"}},
    ],
    ids=["login", "in the address", "in the extra", "token"],
)
def test_no_login_of_a_registry_crosses_the_network_in_plain_text(
    monkeypatch: pytest.MonkeyPatch, connection: dict[str, Any]
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_REGISTRY", json.dumps({"conn_type": "http", **connection}))
    with pytest.raises(ConfigurationError, match="the registry was not asked"):
        registry_settings("registry")
