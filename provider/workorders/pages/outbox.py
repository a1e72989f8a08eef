"""The outbox: shards, held messages and why, and how a person releases or purges them."""

from datetime import UTC, datetime
from typing import Annotated, Final

from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from workorders.core.postgres.connection import Connection
from workorders.outbox import admin
from workorders.outbox.admin import Hold
from workorders.pages import csrf, dag_ids
from workorders.pages.access import CurrentViewer, Right
from workorders.pages.csrf import CurrentActor
from workorders.pages.problems import NotFoundError, WrongInputError
from workorders.pages.rendering import NOTHING, Place, render
from workorders.pages.site import CurrentSite
from workorders.pages.threads import PageRoute

router = APIRouter(route_class=PageRoute)

_KEY_BYTES: Final = 80


@router.get("/outbox")
def page(
    request: Request, site: CurrentSite, viewer: CurrentViewer, topics: Annotated[str | None, Query()] = None
) -> HTMLResponse:
    """Show shards and holds; and topics if asked, because that reads every message that waits."""
    viewer.require(Right.READ, dag_ids.relay())
    with site.reading() as connection:
        shards, holds = admin.shards(connection), admin.holds(connection)
        counted = admin.topics(connection) if topics == "yes" else None
    paused = site.paused_dags([dag_ids.relay()])
    return render(
        request,
        "outbox.html",
        shards=shards,
        holds=holds,
        topics=counted,
        relay=dag_ids.relay(),
        paused=paused.get(dag_ids.relay()),
        may_release=viewer.may(Right.RELEASE, dag_ids.relay()),
        may_purge=viewer.may(Right.PURGE, dag_ids.relay()),
        key_text=key_text,
    )


@router.get("/outbox/holds/{number}")
def hold_page(request: Request, site: CurrentSite, viewer: CurrentViewer, number: int) -> HTMLResponse:
    """Show a hold, and what to release and to purge it does."""
    viewer.require(Right.READ, dag_ids.relay())
    now = datetime.now(UTC)
    with site.reading() as connection:
        hold = _get_hold(connection, number)
        token = csrf.new_token(csrf.form_key(connection), viewer.id, now)
    return render(
        request,
        "hold.html",
        now=now,
        hold=hold,
        may_release=viewer.may(Right.RELEASE, dag_ids.relay()),
        may_purge=viewer.may(Right.PURGE, dag_ids.relay()) and hold.kind != "topic",
        key_text=key_text,
        csrf=token,
    )


@router.post("/outbox/holds/{number}/release")
def release(request: Request, site: CurrentSite, actor: CurrentActor, number: int) -> Response:
    """End a hold, so that its messages are tried now, in their place."""
    actor.require(Right.RELEASE, dag_ids.relay())
    with site.writing() as connection:
        admin.release_hold(connection, number)
    return RedirectResponse(Place.of(request).page("outbox"), 303)


@router.post("/outbox/holds/{number}/purge")
def purge(
    request: Request, site: CurrentSite, actor: CurrentActor, number: int, typed: Annotated[str, Form()] = ""
) -> Response:
    """Delete the messages of a hold unsent, after their number was typed."""
    actor.require(Right.PURGE, dag_ids.relay())
    with site.writing() as connection:
        hold = _get_hold(connection, number)
        if typed.strip() != str(hold.messages):
            raise WrongInputError(
                f"Hold {number}: nothing was deleted, because the number of its messages ({hold.messages}) was not "
                f"typed."
            )
        connection.rollback()
        admin.purge_hold(connection, number)
    return RedirectResponse(Place.of(request).page("outbox"), 303)


def key_text(key: bytes | None) -> str:
    """Return the beginning of a key as text; bytes that are no text are replaced."""
    if key is None:
        return NOTHING
    return key[:_KEY_BYTES].decode(errors="replace") + ("…" if len(key) > _KEY_BYTES else "")


def _get_hold(connection: Connection, number: int) -> Hold:
    found = next((hold for hold in admin.holds(connection) if hold.id == number), None)
    if found is None:
        raise NotFoundError(f"There is no hold {number}: its messages were sent, released, or purged.")
    return found
