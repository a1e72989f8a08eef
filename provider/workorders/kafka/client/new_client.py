"""Starts clients of librdkafka, and turns wrong settings into one clear error."""

import re
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaException

from workorders.core.exceptions import one_line
from workorders.core.secrets import is_secret_setting
from workorders.kafka.client.token_providers import CALLBACK, token_callback
from workorders.kafka.exceptions import ClientSettingsError

Client = TypeVar("Client")

_HTTPS_AUTHORITIES: Final = {"https.ca.location", "https.ca.pem"}
_DEBIAN_AUTHORITIES: Final = "/etc/ssl/certs/ca-certificates.crt"
_HIDDEN: Final = "***"
_BEGINNING: Final = re.compile(r"^Failed to create [a-z ]+: ")
_BUILD: Final = re.compile(r": recompile librdkafka.*$")
_NO_PROVIDER: Final = "No provider for SASL mechanism"
_OTHER_MECHANISMS: Final = (
    "Use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, or OAUTHBEARER: the client is built without this one."
)


def new_client(kind: Callable[[dict[str, Any]], Client], settings: Mapping[str, Any]) -> Client:
    """Start an `AdminClient`, a `Consumer`, or a `Producer`, which connects later by itself.

    Raises:
        ClientSettingsError: the client cannot start with these settings; a retry does not help.
        KafkaRefusedError: there is no token for it.
    """
    own: dict[str, Any] = {}
    if CALLBACK in settings:
        own[CALLBACK] = token_callback(settings)
    if settings.get("sasl.oauthbearer.method") == "oidc" and not _HTTPS_AUTHORITIES & settings.keys():
        own |= _system_authorities()
    try:
        return kind({**settings, **own})
    except KafkaException as error:
        message = error.args[0].str()
        to_do = _OTHER_MECHANISMS if _NO_PROVIDER in message else "Correct the connection."
        # librdkafka's own text may quote a secret.
        raise ClientSettingsError.because(settings, _reason(message, settings), to_do) from None


def _system_authorities() -> dict[str, str]:
    """Return where this machine has its authorities, for the endpoint of tokens.

    librdkafka's own default is a path of Red Hat's systems, and `probe` is no value there.
    """
    found = ssl.get_default_verify_paths().cafile or _DEBIAN_AUTHORITIES
    return {"https.ca.location": found} if Path(found).exists() else {}


def _reason(message: str, settings: Mapping[str, Any]) -> str:
    """Return librdkafka's reason without secrets, with the name of a missing file."""
    for name, value in settings.items():
        if name.endswith(".location") and name in message and not Path(str(value)).exists():
            return f"{name} names {value}, which is not on this machine"
    text = _BUILD.sub("", _BEGINNING.sub("", one_line(message)))
    for name, value in settings.items():
        if value and is_secret_setting(name):  # librdkafka quotes values that it does not understand
            text = text.replace(one_line(value), _HIDDEN)
    return text.rstrip(".")
