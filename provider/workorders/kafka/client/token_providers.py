"""Tokens for OAUTHBEARER that take code: librdkafka calls a function for each, and the settings have its name.

A name is text like every other setting, so an executor imports the function itself. The clouds are those that Airflow's
Kafka hook knows.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final

from workorders.kafka.exceptions import ClientSettingsError

CALLBACK: Final = "oauth_cb"
MSK_IAM: Final = f"{__name__}.msk_iam"
GOOGLE: Final = "workorders.kafka.airflow.google_tokens.google"
"""It needs Airflow's Google provider, also on executors."""


def msk_iam(config: str) -> tuple[str, float]:
    """Return a token for Amazon MSK, and the Unix time in seconds at which it expires.

    Args:
        config: the setting `sasl.oauthbearer.config`, which is `region=` and the region of the cluster.
    """
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider  # noqa: PLC0415 - an extra of Airflow's Kafka provider

    token, expires_ms = MSKAuthTokenProvider.generate_auth_token(config.removeprefix("region="))
    return token, expires_ms / 1000


def token_provider(settings: Mapping[str, object]) -> Callable[[str], tuple[str, float]]:
    """Import the function that the settings name.

    Raises:
        ClientSettingsError: there is no such function on this machine.
    """
    name = str(settings[CALLBACK])
    module, _, function = name.rpartition(".")
    try:
        found: Callable[[str], tuple[str, float]] = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise ClientSettingsError.because(
            settings, f"{CALLBACK} names {name}, which cannot be imported on this machine ({error})"
        ) from None
    return found
