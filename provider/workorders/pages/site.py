"""What the pages get their facts from: the database, Kafka, and Airflow."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import Depends, Request
from psycopg.conninfo import make_conninfo

from workorders.core.exceptions import ConfigurationError
from workorders.core.postgres.connection import Connection, connect

_CONNECT_SECONDS: Final = 5
"""A person waits for the page."""
_READ_SESSION: Final = {"statement_timeout": "5s", "default_transaction_read_only": "on"}


@dataclass(frozen=True)
class Site:
    """Where the facts of all pages come from; a test has its own."""

    database_url: Callable[[], str]
    """Returns libpq's connection string; asked for each request, so that a changed connection counts."""
    kafka_settings: Callable[[str], Mapping[str, Any]]
    """Returns the librdkafka settings of an Airflow connection."""
    paused_dags: Callable[[Collection[str]], Mapping[str, bool]]
    """Returns whether Dags are paused, without those that Airflow does not know."""
    origin: str | None = None
    """Scheme and host of Airflow by its configuration, such as https://airflow.example.org; None if it has none."""

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a connection that cannot write, and whose statements end after some seconds.

        Raises:
            psycopg.OperationalError: the database cannot be reached.
        """
        with connect(self._url(), application_name="workorders pages", session=_READ_SESSION) as connection:
            yield connection
            connection.rollback()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open a connection for a change.

        Raises:
            psycopg.OperationalError: the database cannot be reached.
        """
        with connect(self._url(), application_name="workorders pages") as connection:
            yield connection

    def _url(self) -> str:
        return make_conninfo(self.database_url(), connect_timeout=_CONNECT_SECONDS)


def do_not_ask_kafka(connection_id: str) -> Mapping[str, Any]:
    """Return no settings of Kafka, for the first look at a page, which does not wait for a network.

    Raises:
        ConfigurationError: always; what Kafka knows is shown as unknown.
    """
    raise ConfigurationError(f"Kafka ({connection_id}) is being asked.")


async def _site(request: Request) -> Site:
    site: Site = request.app.state.site
    return site


CurrentSite = Annotated[Site, Depends(_site)]
