"""Tokens for OAUTHBEARER that take code: librdkafka calls a function for each, and the settings have its name.

A name is text like every other setting, so an executor imports the function itself. The clouds are those that Airflow's
Kafka hook knows.
"""

import logging
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final

from workorders.core.exceptions import one_line
from workorders.kafka.exceptions import ClientSettingsError, KafkaRefusedError

TokenProvider = Callable[[str], tuple[str, float]]

log: Final = logging.getLogger(__name__)

CALLBACK: Final = "oauth_cb"
MSK_IAM: Final = f"{__name__}.msk_iam"
GOOGLE: Final = "workorders.kafka.airflow.connections.google"
"""It needs Airflow's Google provider, also on executors."""
_EXPIRED: Final = ("expired", 0.0)
"""librdkafka refuses it, reports that as an error of the connection, and asks again."""


def msk_iam(config: str) -> tuple[str, float]:
    """Return a token for Amazon MSK, and the Unix time in seconds at which it expires.

    The setting `sasl.oauthbearer.config` is `region=` and the region of the cluster.
    """
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider  # noqa: PLC0415 - an extra of Airflow's Kafka provider

    token, expires_ms = MSKAuthTokenProvider.generate_auth_token(config.removeprefix("region="))
    return token, expires_ms / 1000


def token_callback(settings: Mapping[str, object]) -> TokenProvider:
    """Return what librdkafka calls for tokens: the function that the settings name, called once before.

    Raises:
        ClientSettingsError: there is no such function on this machine.
        KafkaRefusedError: it failed.
    """
    name, servers = str(settings[CALLBACK]), settings.get("bootstrap.servers")
    module, _, attribute = name.rpartition(".")
    try:
        function: TokenProvider = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ClientSettingsError.because(
            settings, f"{CALLBACK} names {name}, which cannot be imported on this machine ({error})"
        ) from None
    try:
        # librdkafka would wait for ten seconds, and lose the reason.
        tokens = [function(str(settings.get("sasl.oauthbearer.config", "")))]
    except Exception as error:
        raise KafkaRefusedError(
            f"Kafka at {servers} was not asked, because {name} returned no token: {type(error).__name__}: "
            f"{one_line(error)}. Check the credentials that it uses on this machine."
        ) from error

    def callback(config: str) -> tuple[str, float]:
        try:
            return tokens.pop() if tokens else function(config)
        except Exception as error:  # noqa: BLE001 - an exception here would come up in any later call of the client
            log.error("%s returned no token: %s: %s", name, type(error).__name__, one_line(error))
            return _EXPIRED

    return callback
