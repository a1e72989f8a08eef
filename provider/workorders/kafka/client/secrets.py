"""The connections of a Spark job, which reach it only through the process's environment, or by files named there."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from workorders.core.environment import DATABASE_URL_VARIABLE, FILE_SUFFIX, find_secret
from workorders.core.exceptions import ConfigurationError, one_line
from workorders.core.secrets import is_secret_setting
from workorders.kafka.client.java_settings import jaas_quoted, java_settings
from workorders.kafka.client.settings import JAVA, client_settings

KAFKA_VARIABLE = "WORKORDERS_KAFKA"
"""Environment variable with the librdkafka settings as a JSON object."""
REGISTRY_VARIABLE: Final = "WORKORDERS_SCHEMA_REGISTRY"
"""Environment variable with the settings of the schema registry's client as a JSON object."""
SECRET_VARIABLES: Final = (DATABASE_URL_VARIABLE, KAFKA_VARIABLE, REGISTRY_VARIABLE)
"""All environment variables that `JobSecrets` may need."""
EXAMPLES: Final = {
    KAFKA_VARIABLE: '{"bootstrap.servers": "broker:9092"}',
    REGISTRY_VARIABLE: '{"url": "https://registry.example.com"}',
}
"""Values of the variables with settings."""
_SHORTEST_SECRET: Final = 4
"""Characters; to mask a shorter one everywhere would garble the text and give the secret away."""


@dataclass(frozen=True, slots=True, repr=False)
class JobSecrets:
    """Connections to Postgres and Kafka, secrets included: without a repr, and never logged."""

    database_url: str
    kafka: Mapping[str, Any]
    """librdkafka settings, as the Airflow connection has them."""
    registry: Mapping[str, Any] | None = None
    """Settings of the schema registry's client; None if the trigger needs no registry."""

    @classmethod
    def from_environment(cls) -> "JobSecrets":
        """Read the connections from the process's environment, or from the files that it names.

        Raises:
            ConfigurationError: a variable is not set, is not a JSON object, or names a file that cannot be read.
        """
        kafka, url = settings_from_environment(KAFKA_VARIABLE), find_secret(DATABASE_URL_VARIABLE)
        if kafka is None or url is None:
            name = KAFKA_VARIABLE if kafka is None else DATABASE_URL_VARIABLE
            raise ConfigurationError(f"Neither of the environment variables {name} and {name}{FILE_SUFFIX} is set.")
        return cls(url, kafka, settings_from_environment(REGISTRY_VARIABLE))

    @contextmanager
    def in_environment(self, **others: str) -> Iterator[None]:
        """Set the variables that `from_environment` reads, and others, for the processes that are started meanwhile.

        Airflow's `env_vars` are a template field, so Airflow stores and shows them, and for some masters they become
        arguments. These variables exist in no attribute of the operator, in no argument, and in no log.
        """
        variables = {**self.to_environment(), **others}
        before = {name: value for name, value in os.environ.items() if name in variables}
        os.environ.update(variables)
        try:
            yield
        finally:
            for name in variables:
                os.environ.pop(name, None)
            os.environ.update(before)

    def mask(self, text: str) -> str:
        """Return the text with `***` for each secret of the settings, also as the clients get it.

        Some errors of Spark's Kafka source print all settings of a client. The text may be on one line.
        """
        for secret in self._secrets():
            if len(secret) >= _SHORTEST_SECRET:
                for form in (secret, jaas_quoted(secret), one_line(secret)):
                    text = text.replace(form, "***")
        return text

    def _secrets(self) -> list[str]:
        """Return the secrets, the longest first, because one may be a part of another."""
        own = self.kafka.get(JAVA)
        found = [self.kafka, own if isinstance(own, Mapping) else {}, self.registry or {}]
        for derived in (client_settings, java_settings):
            with suppress(ConfigurationError):
                found.append(derived(self.kafka))
        secrets = {str(value) for settings in found for name, value in settings.items() if is_secret_setting(name)}
        return sorted(secrets, key=len, reverse=True)

    def to_environment(self) -> dict[str, str]:
        """Return the variables that `from_environment` reads."""
        variables = {DATABASE_URL_VARIABLE: self.database_url, KAFKA_VARIABLE: json.dumps(dict(self.kafka))}
        return variables if self.registry is None else variables | {REGISTRY_VARIABLE: json.dumps(dict(self.registry))}


def settings_from_environment(name: str) -> dict[str, Any] | None:
    """Return the settings of a client in the process's environment; None if there are none.

    Raises:
        ConfigurationError: the variable is not a JSON object, or names a file that cannot be read.
    """
    text = find_secret(name)
    try:
        found = None if text is None else json.loads(text)
    except json.JSONDecodeError:
        found = ()
    if found is not None and not isinstance(found, dict):
        # The text is not repeated because it may contain a password.
        raise ConfigurationError(
            f"The environment variable {name} is not a JSON object; nothing was read. Give settings such as "
            f"{EXAMPLES[name]}."
        )
    return found
