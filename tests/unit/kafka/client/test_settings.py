from collections.abc import Callable, Mapping
from typing import Any

import pytest

from workorders.core.exceptions import ConfigurationError
from workorders.kafka.client.java_settings import java_settings
from workorders.kafka.client.settings import client_settings

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
