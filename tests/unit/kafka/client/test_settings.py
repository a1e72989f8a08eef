from collections.abc import Callable, Mapping
from typing import Any

import pytest

from workorders.core.exceptions import ConfigurationError
from workorders.kafka.client.java_settings import java_settings
from workorders.kafka.client.settings import client_settings
from workorders.kafka.exceptions import ClientSettingsError

SASL = {"bootstrap.servers": "b:1", "security.protocol": "sasl_ssl", "sasl.username": "u", "sasl.password": "p"}

Derived = Callable[[Mapping[str, Any]], dict[str, str]]


@pytest.mark.parametrize("protocol", ["ssl", "sasl_ssl", "plaintext"])
@pytest.mark.parametrize("value", [False, "false", "False", "f", "0"])
@pytest.mark.parametrize("derived", [client_settings, java_settings])
def test_no_client_may_trust_every_server(derived: Derived, protocol: str, value: object) -> None:
    given = {**SASL, "security.protocol": protocol, "sasl.mechanisms": "PLAIN"}
    with pytest.raises(ConfigurationError, match="it trusts every server"):
        derived({**given, "enable.ssl.certificate.verification": value})
    derived({**given, "enable.ssl.certificate.verification": True})


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


@pytest.mark.parametrize(
    "servers",
    ["", "broker", "kafka://a:1", "SASL_SSL://a:9093,b:9093", "a:1,", "a:b", "a:1;b:2", "::1:9092"],
)
@pytest.mark.parametrize("derived", [client_settings, java_settings])
def test_addresses_that_a_client_would_never_reach_are_refused_with_their_form(derived: Derived, servers: str) -> None:
    with pytest.raises(ClientSettingsError, match=r"is not a list of addresses.*Give host:port, separated by commas"):
        derived({"bootstrap.servers": servers})


@pytest.mark.parametrize("servers", ["b:1", "a-1.example_x:9092, b:9092", "10.0.0.1:9092", "[::1]:9092"])
def test_host_names_and_addresses_with_their_ports_are_taken(servers: str) -> None:
    assert client_settings({"bootstrap.servers": servers}) == {"bootstrap.servers": servers}
