"""Settings of librdkafka's clients, from the extras of the Airflow Kafka connection."""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from workorders.core.exceptions import ConfigurationError
from workorders.kafka.client.certificates import as_texts
from workorders.kafka.client.token_providers import CALLBACK
from workorders.kafka.exceptions import ClientSettingsError

if TYPE_CHECKING:
    from workorders.kafka.client.admin import KafkaAdmin

SettingsOf = Callable[[str], Mapping[str, Any]]
"""Returns the settings of a connection to Kafka, or to a schema registry; it may raise a ConfigurationError."""

JAVA: Final = "java"
"""Field of the extras with settings for Spark's Java client alone."""
_ALIASES: Final = {
    "max.partition.fetch.bytes": "fetch.message.max.bytes",
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanism": "sasl.mechanisms",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
}
"""Aliases of librdkafka's settings."""

_CONSUMER_ONLY: Final = re.compile(
    r"(allow\.auto|auto|consume|coordinator|enable\.auto|fetch|group|heartbeat|isolation|max\.poll|offset\.store"
    r"|partition\.assignment|queued|session)\.|check\.crcs|enable\.partition\.eof"
)
"""Names of settings that an administration client ignores; librdkafka warns about each at every start."""

_SERVER: Final = re.compile(r"([\w.-]+|\[[0-9a-fA-F:.%\w]+\]):[0-9]{1,5}")
"""A host name or an address, IPv6 in brackets, with its port, which Java's client requires."""

_NO: Final = frozenset({"false", "f", "0"})
"""Values that switch a setting of librdkafka off."""

_CALLBACKS: Final = ("_cb", "on_commit", "on_delivery", "logger")


def client_settings(extra: Mapping[str, Any]) -> dict[str, str]:
    """Return settings for an administration client of librdkafka, which never consumes.

    They name no file, so they are good for a client on any machine. The isolation level is not a setting of such a
    client: each request has it.

    Raises:
        ConfigurationError: a setting trusts every server, the addresses of the brokers cannot be read, or a file
            cannot be read here.
    """
    return {name: value for name, value in common_settings(extra).items() if not _CONSUMER_ONLY.match(name)}


def common_settings(extra: Mapping[str, Any]) -> dict[str, str]:
    """Return what the settings of every client are derived from: text under one name each, and no file.

    Callbacks that Airflow's connection may name are left out, except the name of a function that returns tokens.

    Raises:
        ConfigurationError: as for `client_settings`.
    """
    normal: dict[str, str] = {}
    for name, value in extra.items():
        if value is None or name == JAVA or (name.endswith(_CALLBACKS) and name != CALLBACK):
            continue
        normal[_ALIASES.get(name, name)] = str(value).lower() if isinstance(value, bool) else str(value)
    _require_servers(normal)
    _require_server_verification(normal)
    return as_texts(normal)


def _require_servers(given: Mapping[str, str]) -> None:
    """Refuse addresses that one of the clients cannot read: librdkafka would only never find a broker."""
    servers = given.get("bootstrap.servers", "")
    if not all(_SERVER.fullmatch(server.strip()) for server in servers.split(",")):
        raise ClientSettingsError(
            f"bootstrap.servers={servers!r} in the Kafka connection is not a list of addresses. No client was started. "
            f"Give host:port, separated by commas and without a scheme, such as broker-1:9092,broker-2:9092; "
            f"TLS and SASL are chosen by security.protocol."
        )


def _require_server_verification(given: Mapping[str, str]) -> None:
    """Refuse to trust every server, because an attacker between the client and the broker could read the password."""
    if given.get("enable.ssl.certificate.verification", "true").lower() in _NO:
        raise ConfigurationError(
            "enable.ssl.certificate.verification=false in the Kafka connection is refused, because it trusts every "
            "server. No client was started. Give the broker's certificate authority in ssl.ca.location instead."
        )


def open_admin(connection_id: str, settings_of: SettingsOf, **options: Any) -> "KafkaAdmin":
    """Open a client by the id of its Kafka connection, with options of `KafkaAdmin`; no request is sent yet.

    Raises:
        ConfigurationError: the settings are missing or refused, or the client is not installed.
    """
    extra = settings_of(connection_id)
    try:
        # The client is an extra: commands that need only the database work without it.
        from workorders.kafka.client.admin import KafkaAdmin  # noqa: PLC0415
    except ImportError:
        raise ConfigurationError(
            "The package confluent-kafka is not installed, so Kafka was not asked; "
            "install airflow-provider-workorders[kafka]."
        ) from None
    try:
        return KafkaAdmin(client_settings(extra), **options)
    except ClientSettingsError as error:
        raise ClientSettingsError(f"{connection_id}: {error}") from error
