"""Where the facts of the pages come from, and the visit of a user, which each page answers."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from fastapi import Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from psycopg.conninfo import make_conninfo

from workorders.core.attribution import Attribution
from workorders.core.postgres.connection import Connection, connect
from workorders.pages import forms
from workorders.pages.access import Viewer, current_viewer
from workorders.pages.rendering import Place, render

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

    @contextmanager
    def reading(self, *, seconds: int = _READ_SECONDS) -> Iterator[Connection]:
        """Open a connection that cannot write, and whose statements end after some seconds."""
        with self._connect({"statement_timeout": f"{seconds}s", "default_transaction_read_only": "on"}) as connection:
            yield connection
            connection.rollback()

    def writing(self) -> Connection:
        """Open a connection for a change."""
        return self._connect({})

    def _connect(self, session: Mapping[str, str]) -> Connection:
        url = make_conninfo(self.database_url(), connect_timeout=_CONNECT_SECONDS)
        return connect(url, application_name="workorders pages", session=session)


@dataclass(frozen=True)
class Visit:
    """A request of a user for a page, or for a change."""

    request: Request
    site: Site
    viewer: Viewer

    @cached_property
    def now(self) -> datetime:
        """Return the time to which ages on the page are counted: the first look at it, in the thread of the page."""
        return datetime.now(UTC)

    @property
    def is_update(self) -> bool:
        """Return whether a page asks for itself again."""
        return "hx-request" in self.request.headers

    @property
    def kafka(self) -> Callable[[str], Mapping[str, Any]] | None:
        """Return the settings with which Kafka is asked, if this is an update: the first page does not wait for it."""
        return self.site.kafka_settings if self.is_update else None

    @property
    def token(self) -> str:
        """Return a token for the forms of the page."""
        return forms.new_token(self.site.form_key, self.viewer.id)

    def by(self, reason: str) -> Attribution:
        """Return who makes a change, and why."""
        return Attribution(self.viewer.name, reason, self.viewer.name)

    def show(self, template: str, **facts: Any) -> HTMLResponse:
        """Return the page that a template makes of facts."""
        return render(self.request, template, now=self.now, visit=self, **facts)

    def redirect(self, *parts: object, **query: object) -> RedirectResponse:
        """Return an answer that leads the browser to a page."""
        path = Place.of(self.request).page(*parts)
        return RedirectResponse(f"{path}?{urlencode(query)}" if query else path, 303)

    def record(self, event: str, dag_ids: Sequence[str], **details: str | int | Sequence[str]) -> None:
        """Record a change before it is committed: an entry without a change is possible, and none without an entry.

        Args:
            event: what the user does, in at most 49 characters.
            dag_ids: the Dags whose rights allowed it.
            details: numbers, ids, and the reason. Words that were searched for stay out, because no retention erases
                this log.
        """
        extra = json.dumps(details, ensure_ascii=False)
        self.site.write_audit_log(f"workorders_{event}", dag_ids, self.viewer.name, extra)


async def _visit(request: Request, viewer: Annotated[Viewer, Depends(current_viewer)]) -> Visit:
    return Visit(request, request.app.state.site, viewer)


CurrentVisit = Annotated[Visit, Depends(_visit)]


async def _act(visit: CurrentVisit) -> Visit:
    """Refuse a request to change something that another site has made, and not a form of ours."""
    forms.require_own_origin(visit.request, visit.site.origin)
    given = (await visit.request.form()).get(forms.FIELD, "")
    forms.require_token(visit.site.form_key, visit.viewer.id, str(given))
    return visit


Action = Annotated[Visit, Depends(_act)]
"""A visit that changes something by a form of ours."""
