"""What the pages get their facts from: the database, Kafka, and Airflow."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from fastapi import Depends, Request
from psycopg.conninfo import make_conninfo

from workorders.core.postgres.connection import Connection, connect
from workorders.pages.access import Viewer

KAFKA_SECONDS: Final = 2.0
"""A person waits for the page."""
_CONNECT_SECONDS: Final = 5
_READ_SECONDS: Final = 5


@dataclass(frozen=True)
class Site:
    """Where the facts of all pages come from; a test has its own."""

    database_url: Callable[[], str]
    """Returns libpq's connection string; asked for each request, so that a changed connection counts."""
    kafka_settings: Callable[[str], Mapping[str, Any]]
    """Returns the librdkafka settings of an Airflow connection."""
    paused_dags: Callable[[Collection[str]], Mapping[str, bool]]
    """Returns whether Dags are paused, without those that Airflow does not know."""
    form_key: str = field(repr=False)
    """The key that signs the tokens of forms, which all API servers share."""
    write_audit_log: Callable[[str, Sequence[str], str, str], None] = lambda *_: None
    """Writes an event into Airflow's audit log: its name, the Dags that get an entry, the user, and details as JSON."""
    origin: str | None = None
    """Scheme and host of Airflow by its configuration, such as https://airflow.example.org; None if it has none."""

    def record(self, actor: Viewer, event: str, dag_ids: Sequence[str], **details: str | int | Sequence[str]) -> None:
        """Record a change before it is committed: an entry without a change is possible, and none without an entry.

        Args:
            actor: who changes something.
            event: what that user does, in at most 49 characters.
            dag_ids: the Dags whose rights allowed it.
            details: numbers, ids, and the reason. Words that were searched for stay out, because no retention erases
                this log.
        """
        extra = json.dumps(details, ensure_ascii=False)
        self.write_audit_log(f"workorders_{event}", dag_ids, actor.name, extra)

    @contextmanager
    def reading(self, *, seconds: int = _READ_SECONDS) -> Iterator[Connection]:
        """Open a connection that cannot write, and whose statements end after some seconds."""
        session = {"statement_timeout": f"{seconds}s", "default_transaction_read_only": "on"}
        with connect(self._url(), application_name="workorders pages", session=session) as connection:
            yield connection
            connection.rollback()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open a connection for a change."""
        with connect(self._url(), application_name="workorders pages") as connection:
            yield connection

    def _url(self) -> str:
        return make_conninfo(self.database_url(), connect_timeout=_CONNECT_SECONDS)


async def _site(request: Request) -> Site:
    site: Site = request.app.state.site
    return site


CurrentSite = Annotated[Site, Depends(_site)]
