"""From Airflow connections to the settings of clients."""

import json
from typing import Any

import pytest

from workorders.kafka.airflow.connections import registry_settings


@pytest.mark.parametrize(
    ("connection", "expected"),
    [
        ({"host": "registry", "port": 8081}, {"url": "http://registry:8081"}),
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
    ids=["port", "tls", "path and login", "extra"],
)
def test_a_connection_of_a_registry_becomes_settings_of_its_client(
    monkeypatch: pytest.MonkeyPatch, connection: dict[str, Any], expected: dict[str, Any]
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_REGISTRY", json.dumps({"conn_type": "http", **connection}))
    assert registry_settings("registry") == expected
