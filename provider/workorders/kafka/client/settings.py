"""Settings of Kafka clients, derived from one set of librdkafka settings: the Airflow connection's extras.

Spark reads with the Java client, which has other names, another form for credentials, and PEM texts instead of files.
A setting without an equivalent is left out if that is harmless, and refused if it would change who is trusted.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from workorders.core.exceptions import ConfigurationError

_ALIASES: Final = {
    "max.partition.fetch.bytes": "fetch.message.max.bytes",
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanism": "sasl.mechanisms",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
}
"""Aliases of librdkafka's settings."""

_JAVA_NAMES: Final = {
    "bootstrap.servers": "bootstrap.servers",
    "check.crcs": "check.crcs",
    "client.dns.lookup": "client.dns.lookup",
    "client.id": "client.id",
    "client.rack": "client.rack",
    "fetch.max.bytes": "fetch.max.bytes",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "fetch.min.bytes": "fetch.min.bytes",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "metadata.max.age.ms": "metadata.max.age.ms",
    "reconnect.backoff.max.ms": "reconnect.backoff.max.ms",
    "reconnect.backoff.ms": "reconnect.backoff.ms",
    "retry.backoff.max.ms": "retry.backoff.max.ms",
    "retry.backoff.ms": "retry.backoff.ms",
    "socket.connection.setup.timeout.ms": "socket.connection.setup.timeout.ms",
    "socket.timeout.ms": "request.timeout.ms",
}
"""Settings that the Java client has as well, under this name and with the same values."""

_TRUST_PREFIXES: Final = ("sasl.", "ssl.", "ssl_", "security.", "https.", "enable.sasl.", "enable.ssl.")
"""Settings of trust and identity: none of these is left out unless it is listed below."""

_LEFT_OUT: Final = frozenset(
    {
        "enable.sasl.oauthbearer.unsecure.jwt",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.service.name",
        "sasl.oauthbearer.method",
        "ssl.cipher.suites",
        "ssl.curves.list",
        "ssl.sigalgs.list",
    }
)
"""Java chooses its own ciphers, under other names; the others belong to mechanisms that are refused by name."""

_CONSUMER_ONLY: Final = re.compile(
    r"(allow\.auto|auto|consume|coordinator|enable\.auto|fetch|group|heartbeat|isolation|max\.poll|offset\.store"
    r"|partition\.assignment|queued|session)\.|check\.crcs|enable\.partition\.eof"
)
"""Names of settings that an administration client ignores; librdkafka warns about each at every start."""

_NO: Final = frozenset({"false", "f", "0"})
"""Values that switch a setting of librdkafka off."""

_CALLBACKS: Final = ("_cb", "on_commit", "on_delivery", "logger")

_PLAIN_LOGIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_LOGIN: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_LOGIN_MODULES: Final = {"PLAIN": _PLAIN_LOGIN, "SCRAM-SHA-256": _SCRAM_LOGIN, "SCRAM-SHA-512": _SCRAM_LOGIN}
_OAUTH_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer"


def client_settings(extra: Mapping[str, Any]) -> dict[str, str]:
    """Return settings for an administration client of librdkafka, which never consumes.

    The isolation level is not a setting of such a client: each request has it.

    Raises:
        ConfigurationError: a setting trusts every server.
    """
    given = _normal(extra)
    _require_server_verification(given)
    return {name: value for name, value in given.items() if not _CONSUMER_ONLY.match(name)}


def executor_settings(extra: Mapping[str, Any]) -> dict[str, str]:
    """Return `client_settings` for an executor, with the texts of files that its machine may not have.

    A PKCS#12 keystore has no text form. It must be at the same path on every executor.

    Raises:
        ConfigurationError: a file cannot be read here.
    """
    settings = client_settings(extra)
    if settings.get("security.protocol", "").upper().endswith("SSL"):
        for name in ("ssl.ca", "ssl.certificate", "ssl.key"):
            text = _pem(settings, name)
            if text is not None:
                settings[f"{name}.pem"] = text
    return settings


def java_settings(librdkafka: Mapping[str, Any]) -> dict[str, str]:
    """Return the equivalent settings of the Java consumer, always with `read_committed`.

    They contain the texts of certificates and keys, so that no executor needs the files.

    Raises:
        ConfigurationError: a setting of trust has no equivalent, or credentials are incomplete.
    """
    given = _normal(librdkafka)
    _require_server_verification(given)
    java = {java_name: given.pop(name) for name, java_name in _JAVA_NAMES.items() if name in given}
    protocol = given.pop("security.protocol", "plaintext").upper()
    java["security.protocol"] = protocol
    java["isolation.level"] = "read_committed"
    if protocol.endswith("SSL"):
        java |= _tls(given)
    if protocol.startswith("SASL"):
        java |= _sasl(given)
    _require_known_trust_settings(given, protocol)
    return java


def _normal(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return settings as text under one name each, without Python callbacks, which Airflow's connection may name."""
    normal: dict[str, str] = {}
    for name, value in settings.items():
        if value is None or name.endswith(_CALLBACKS):
            continue
        normal[_ALIASES.get(name, name)] = str(value).lower() if isinstance(value, bool) else str(value)
    return normal


def _tls(given: dict[str, str]) -> dict[str, str]:
    given.pop("enable.ssl.certificate.verification", None)
    java = {}
    endpoint = given.pop("ssl.endpoint.identification.algorithm", "https").lower()
    java["ssl.endpoint.identification.algorithm"] = "" if endpoint == "none" else endpoint
    authority = _pem(given, "ssl.ca")
    if authority is not None:
        java |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority}
    keystore = given.pop("ssl.keystore.location", None)
    if keystore is not None:
        java |= {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": keystore}
        java["ssl.keystore.password"] = given.pop("ssl.keystore.password", "")
    certificate, key = _pem(given, "ssl.certificate"), _pem(given, "ssl.key")
    password = given.pop("ssl.key.password", None)
    if (certificate is None) != (key is None):
        missing, there = ("ssl.certificate", "ssl.key") if certificate is None else ("ssl.key", "ssl.certificate")
        raise ConfigurationError(
            f"The Kafka connection has {there}.location or {there}.pem without {missing}.location or {missing}.pem; "
            f"a client certificate needs both."
        )
    if certificate is not None and key is not None:
        java |= {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": certificate}
        java["ssl.keystore.key"] = _pkcs8(key)
        # Java refuses a password for a key that has none.
        if password is not None and "BEGIN ENCRYPTED PRIVATE KEY" in key:
            java["ssl.key.password"] = password
    return java


def _pem(given: dict[str, str], name: str) -> str | None:
    text, path = given.pop(f"{name}.pem", None), given.pop(f"{name}.location", None)
    if text is not None or path is None or path == "probe":
        return text
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in PEM form"
        raise ConfigurationError(
            f"The file {path} that the Kafka connection names cannot be read: {reason}."
        ) from error


def _pkcs8(key: str) -> str:
    """Return a key that Java reads; one with a password needs Java 19, or the old encryption `-v1 PBE-SHA1-3DES`."""
    if "BEGIN PRIVATE KEY" in key or "BEGIN ENCRYPTED PRIVATE KEY" in key:
        return key
    raise ConfigurationError(
        "The client key of the Kafka connection (ssl.key) is not in PKCS#8 form, the only one that Java reads; "
        "convert it with `openssl pkcs8 -topk8 -in client.key -out client.pkcs8.key`, adding -nocrypt for no password."
    )


def _sasl(given: dict[str, str]) -> dict[str, str]:
    mechanism = given.pop("sasl.mechanisms", "GSSAPI").upper()
    if mechanism == "OAUTHBEARER":
        return _oauth(given)
    module = _LOGIN_MODULES.get(mechanism)
    if module is None:
        raise ConfigurationError(
            f"sasl.mechanisms={mechanism} in the Kafka connection (GSSAPI if not given) has no form for Spark's Java "
            f"client here; use one of {', '.join(_LOGIN_MODULES)}, OAUTHBEARER."
        )
    options = {option: _required(given, f"sasl.{option}", mechanism) for option in ("username", "password")}
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": _jaas(module, options)}


def _oauth(given: dict[str, str]) -> dict[str, str]:
    method = given.pop("sasl.oauthbearer.method", "default").lower()
    if method != "oidc":
        raise ConfigurationError(
            f"sasl.oauthbearer.method={method} in the Kafka connection has no form for Spark's Java client; use oidc."
        )
    options = {
        "clientId": _required(given, "sasl.oauthbearer.client.id", "OAUTHBEARER"),
        "clientSecret": _required(given, "sasl.oauthbearer.client.secret", "OAUTHBEARER"),
    }
    scope = given.pop("sasl.oauthbearer.scope", "")
    if scope:
        options["scope"] = scope
    for extension in filter(None, given.pop("sasl.oauthbearer.extensions", "").split(",")):
        name, _, value = extension.partition("=")
        options[f"extension_{name.strip()}"] = value.strip()
    return {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": _jaas(f"{_OAUTH_PACKAGE}.OAuthBearerLoginModule", options),
        "sasl.login.callback.handler.class": f"{_OAUTH_PACKAGE}.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": _required(given, "sasl.oauthbearer.token.endpoint.url", "OAUTHBEARER"),
    }


def _required(given: dict[str, str], name: str, mechanism: str) -> str:
    value = given.pop(name, "")
    if not value:
        raise ConfigurationError(f"The Kafka connection lacks {name}, which sasl.mechanisms={mechanism} needs.")
    return value


def _jaas(module: str, options: Mapping[str, str]) -> str:
    quoted = " ".join(f"{name}={jaas_quoted(value)}" for name, value in options.items())
    return f"{module} required {quoted};"


def jaas_quoted(value: str) -> str:
    """Quote a value as Java's StreamTokenizer reads: backslash escapes, octal ones for control characters."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(f"\\{ord(char):03o}" if ord(char) < ord(" ") else char for char in escaped) + '"'


def _require_server_verification(given: Mapping[str, str]) -> None:
    """Refuse to trust every server, because an attacker between the client and the broker could read the password."""
    if given.get("enable.ssl.certificate.verification", "true").lower() in _NO:
        raise ConfigurationError(
            "enable.ssl.certificate.verification=false in the Kafka connection is refused, because it trusts every "
            "server. No client was started. Give the broker's certificate authority in ssl.ca.location instead."
        )


def _require_known_trust_settings(left: Mapping[str, str], protocol: str) -> None:
    without_effect: tuple[str, ...] = ()
    if not protocol.endswith("SSL"):
        without_effect += ("ssl.", "ssl_", "enable.ssl.")
    if not protocol.startswith("SASL"):
        without_effect += ("sasl.", "enable.sasl.")
    for name in left:
        if name.startswith(_TRUST_PREFIXES) and not name.startswith(without_effect) and name not in _LEFT_OUT:
            raise ConfigurationError(
                f"{name} in the Kafka connection has no form for Spark's Java client with {protocol}; "
                f"remove it, or use a setting that both clients know."
            )
