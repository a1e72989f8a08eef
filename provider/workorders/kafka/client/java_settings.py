"""Settings of Spark's Java client, derived from those of librdkafka, which the Airflow connection has.

The Java client has other names, and another form for credentials. A setting without an equivalent is left out if that
is harmless, and refused if it would change who is trusted. The connection may give settings of Java themselves.
"""

from collections.abc import Mapping
from typing import Any, Final

from workorders.core.exceptions import ConfigurationError
from workorders.kafka.client.settings import JAVA, common_settings
from workorders.kafka.client.token_providers import CALLBACK, GOOGLE, MSK_IAM

_SAME: Final = (
    *("bootstrap.servers", "check.crcs", "client.dns.lookup", "client.id", "client.rack"),
    *("fetch.max.bytes", "fetch.min.bytes", "metadata.max.age.ms", "reconnect.backoff.max.ms", "reconnect.backoff.ms"),
    *("retry.backoff.max.ms", "retry.backoff.ms", "socket.connection.setup.timeout.ms"),
)
_NAMES: Final = {
    **dict(zip(_SAME, _SAME, strict=True)),
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "socket.timeout.ms": "request.timeout.ms",
}
"""Settings that the Java client has as well, under this name and with the same values."""

_SASL_PREFIXES: Final = ("sasl.", "enable.sasl.", "https.")
_TLS_PREFIXES: Final = ("ssl.", "ssl_", "enable.ssl.")
_TRUST_PREFIXES: Final = (*_SASL_PREFIXES, *_TLS_PREFIXES, "security.")
"""Settings of trust and identity: none of these is left out unless it is listed below."""

_LEFT_OUT: Final = frozenset(
    {
        "enable.sasl.oauthbearer.unsecure.jwt",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.service.name",
        "sasl.oauthbearer.method",
        "ssl.ca.location",
        "ssl.cipher.suites",
        "ssl.curves.list",
        "ssl.sigalgs.list",
    }
)
"""Java chooses its own ciphers, under other names, and looks for the system's authorities as `probe` does; the others
belong to mechanisms that are refused by name."""

_PLAIN_LOGIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_LOGIN: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_LOGIN_MODULES: Final = {"PLAIN": _PLAIN_LOGIN, "SCRAM-SHA-256": _SCRAM_LOGIN, "SCRAM-SHA-512": _SCRAM_LOGIN}
_OAUTH_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer"
_LOGIN: Final = "sasl.jaas.config"
_CLOUD_LOGINS: Final = {
    MSK_IAM: {
        "sasl.mechanism": "AWS_MSK_IAM",
        _LOGIN: "software.amazon.msk.auth.iam.IAMLoginModule required;",
        "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
    },
    GOOGLE: {
        "sasl.mechanism": "OAUTHBEARER",
        _LOGIN: f"{_OAUTH_PACKAGE}.OAuthBearerLoginModule required;",
        "sasl.login.callback.handler.class": "com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler",
    },
}
"""What the clouds' libraries need, whose jars Spark must have, by the function that returns librdkafka's tokens."""


def java_settings(extra: Mapping[str, Any]) -> dict[str, str]:
    """Return the equivalent settings of the Java consumer, always with `read_committed`.

    They contain the texts of certificates and keys, so that no executor needs the files. The settings in the extras'
    field `java` win over derived ones; with their own login, none is derived.

    Raises:
        ConfigurationError: a setting of trust has no equivalent, or credentials are incomplete.
    """
    own = _own(extra)
    given = common_settings(extra)
    java = {java_name: given.pop(name) for name, java_name in _NAMES.items() if name in given}
    protocol = given.pop("security.protocol", "plaintext").upper()
    java["security.protocol"] = protocol
    if protocol.endswith("SSL"):
        java |= _tls(given)
    if protocol.startswith("SASL"):
        java |= {"sasl.mechanism": given.get("sasl.mechanisms", "GSSAPI")} if _LOGIN in own else _sasl(given)
    _require_known_trust_settings(given, protocol, own)
    return {**java, **own, "isolation.level": "read_committed"}


def _own(extra: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings of Java that the connection has."""
    found = extra.get(JAVA) or {}
    if not isinstance(found, Mapping) or any(isinstance(value, Mapping | list) for value in found.values()):
        raise ConfigurationError(
            f"The field {JAVA} in the extras of the Kafka connection has a wrong form. Nothing was read. Give an "
            f'object of settings for Kafka\'s Java client, such as {{"{_LOGIN}": "..."}}.'
        )
    return {str(name): str(value).lower() if isinstance(value, bool) else str(value) for name, value in found.items()}


def _tls(given: dict[str, str]) -> dict[str, str]:
    given.pop("enable.ssl.certificate.verification", None)
    endpoint = given.pop("ssl.endpoint.identification.algorithm", "https").lower()
    java = {"ssl.endpoint.identification.algorithm": "" if endpoint == "none" else endpoint}
    if "ssl.ca.pem" in given:
        java |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": given.pop("ssl.ca.pem")}
    if "ssl.key.pem" in given:
        java |= {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": given.pop("ssl.certificate.pem")}
        java["ssl.keystore.key"] = given.pop("ssl.key.pem")
    return java


def _sasl(given: dict[str, str]) -> dict[str, str]:
    mechanism = given.pop("sasl.mechanisms", "GSSAPI").upper()
    if mechanism == "OAUTHBEARER":
        return _oauth(given)
    module = _LOGIN_MODULES.get(mechanism)
    if module is None:
        raise ConfigurationError(
            f"sasl.mechanisms={mechanism} in the Kafka connection (GSSAPI if not given) has no form for Spark's Java "
            f"client here, so nothing was read; use one of {', '.join(_LOGIN_MODULES)}, OAUTHBEARER, or give {_LOGIN} "
            f"in the field {JAVA}."
        )
    options = {option: _required(given, f"sasl.{option}", mechanism) for option in ("username", "password")}
    return {"sasl.mechanism": mechanism, _LOGIN: _jaas(module, options)}


def _oauth(given: dict[str, str]) -> dict[str, str]:
    if given.get(CALLBACK) in _CLOUD_LOGINS:
        given.pop("sasl.oauthbearer.config", None)
        return _CLOUD_LOGINS[given[CALLBACK]]
    method = given.pop("sasl.oauthbearer.method", "default").lower()
    if method != "oidc":
        raise ConfigurationError(
            f"sasl.oauthbearer.method={method} in the Kafka connection has no form for Spark's Java client, so nothing "
            f"was read; use oidc, or give {_LOGIN} in the field {JAVA}."
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
    if "https.ca.pem" in given:
        # The token's endpoint has its own truststore.
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": given.pop("https.ca.pem")}
    return {
        "sasl.mechanism": "OAUTHBEARER",
        _LOGIN: _jaas(f"{_OAUTH_PACKAGE}.OAuthBearerLoginModule", options),
        "sasl.login.callback.handler.class": f"{_OAUTH_PACKAGE}.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": _required(given, "sasl.oauthbearer.token.endpoint.url", "OAUTHBEARER"),
    }


def _required(given: dict[str, str], name: str, mechanism: str) -> str:
    value = given.pop(name, "")
    if not value:
        raise ConfigurationError(
            f"The Kafka connection lacks {name}, which sasl.mechanisms={mechanism} needs; nothing was read; add it."
        )
    return value


def _jaas(module: str, options: Mapping[str, str]) -> str:
    quoted = " ".join(f"{name}={jaas_quoted(value)}" for name, value in options.items())
    return f"{module} required {quoted};"


def jaas_quoted(value: str) -> str:
    """Quote a value as Java's StreamTokenizer reads: backslash escapes, octal ones for control characters."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(f"\\{ord(char):03o}" if ord(char) < ord(" ") else char for char in escaped) + '"'


def _require_known_trust_settings(left: Mapping[str, str], protocol: str, own: Mapping[str, str]) -> None:
    without_effect: tuple[str, ...] = ()
    if not protocol.endswith("SSL") or any(name.startswith("ssl.") for name in own):
        without_effect += _TLS_PREFIXES
    if not protocol.startswith("SASL") or _LOGIN in own:
        without_effect += _SASL_PREFIXES
    for name in left:
        if name.startswith(_TRUST_PREFIXES) and not name.startswith(without_effect) and name not in _LEFT_OUT:
            raise ConfigurationError(
                f"{name} in the Kafka connection has no form for Spark's Java client with {protocol}, so nothing was "
                f"read; remove it, use a setting that both clients know, or give one in the field {JAVA}."
            )
