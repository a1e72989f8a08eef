"""What the demo knows of the stack that it shows."""

from collections.abc import Mapping
from typing import Protocol


class RunningStack(Protocol):
    """Where the parts of a stack are, whatever has started them."""

    @property
    def kafka_settings(self) -> Mapping[str, str | int | float | bool]:
        """The settings, in librdkafka's names, that a Kafka client needs."""

    @property
    def database_url(self) -> str:
        """The libpq URI of the database that holds the work orders. It holds a password."""

    @property
    def airflow_url(self) -> str:
        """The address of Airflow's pages and of its API."""

    @property
    def airflow_login(self) -> tuple[str, str] | None:
        """The user and password that Airflow asks for; None if it asks for none."""
