"""Tokens for Google's Managed Kafka, from Airflow's Google provider."""


def google(config: str) -> tuple[str, float]:
    """Return a token, and the Unix time in seconds at which it expires."""
    from airflow.providers.google.cloud.hooks.managed_kafka import ManagedKafkaHook  # noqa: PLC0415 - not a dependency

    found: tuple[str, float] = ManagedKafkaHook().get_confluent_token(config)
    return found
