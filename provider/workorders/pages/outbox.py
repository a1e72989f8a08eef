"""The outbox: shards, held messages and why, and how a person releases or purges them."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Form, HTTPException, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from workorders import dag_ids
from workorders.core.postgres.connection import Connection
from workorders.outbox import admin
from workorders.outbox.admin import Hold, ShardStatus
from workorders.pages import forms
from workorders.pages.access import CurrentViewer, Right, Viewer, hide, may_read_texts
from workorders.pages.forms import CurrentActor, require_number
from workorders.pages.rendering import Place, render
from workorders.pages.site import CurrentSite
from workorders.pages.threads import PageRoute

router = APIRouter(route_class=PageRoute)

Done = Literal["released", "purged"]
"""What a person has just decided, in the address of the page."""
_DONE: Final[Mapping[Done, str]] = {
    "released": "Hold {} was released: its messages are tried again, in their place.",
    "purged": "Hold {} was purged: its messages were deleted unsent.",
}


@router.get("/outbox")
def page(
    *,
    request: Request,
    site: CurrentSite,
    viewer: CurrentViewer,
    done: Annotated[Done | None, Query()] = None,
    number: Annotated[int | None, Query(ge=0)] = None,
) -> HTMLResponse:
    """Show shards and holds."""
    viewer.require(Right.READ, dag_ids.OUTBOX)
    with site.reading() as connection:
        oldest_at, shown, held = admin.oldest_at(connection), shards(connection, viewer), holds(connection, viewer)
    relays = [dag_ids.OUTBOX, *(dag_ids.outbox(shard.shard) for shard in shown if shard.shard)]
    return render(
        request,
        "outbox.html",
        shards=shown,
        oldest_at=oldest_at,
        holds=held,
        # Anybody can write an address; a hold that is there contradicts it.
        done=_DONE[done].format(number) if done and number not in {None, *(hold.id for hold in held)} else None,
        paused=[relay for relay, is_paused in site.paused_dags(relays).items() if is_paused],
    )


@router.get("/outbox/holds/{number}")
def hold_page(request: Request, site: CurrentSite, viewer: CurrentViewer, number: int) -> HTMLResponse:
    """Show a hold, and what to release and to purge it does."""
    viewer.require(Right.READ, dag_ids.OUTBOX)
    with site.reading() as connection:
        hold = _get_hold(holds(connection, viewer), number)
    return render(
        request,
        "hold.html",
        hold=hold,
        may_release=viewer.may(Right.RELEASE, dag_ids.OUTBOX),
        may_purge=viewer.may(Right.PURGE, dag_ids.OUTBOX) and hold.kind != "topic",
        csrf=forms.new_token(site.form_key, viewer.id),
    )


@router.post("/outbox/holds/{number}/release")
def release(request: Request, site: CurrentSite, actor: CurrentActor, number: int) -> Response:
    """End a hold, so that its messages are tried now, in their place."""
    actor.require(Right.RELEASE, dag_ids.OUTBOX)
    with site.writing() as connection:
        hold = _get_hold(admin.holds(connection), number)
        connection.rollback()
        site.record(actor, "release_hold", [dag_ids.OUTBOX], hold=number, topic=hold.topic)
        admin.release_hold(connection, number)
    return _confirmed(request, "released", number)


@router.post("/outbox/holds/{number}/purge")
def purge(
    request: Request, site: CurrentSite, actor: CurrentActor, number: int, typed: Annotated[str, Form()] = ""
) -> Response:
    """Delete the messages of a hold unsent, after their number was typed."""
    actor.require(Right.PURGE, dag_ids.OUTBOX)
    with site.writing() as connection:
        hold = _get_hold(admin.holds(connection), number)
        require_number(typed, hold.messages, where=f"Hold {number}", counted="its messages")
        connection.rollback()
        site.record(actor, "purge_hold", [dag_ids.OUTBOX], hold=number, topic=hold.topic, messages=hold.messages)
        # Messages that follow a held one come to the hold until it ends.
        admin.purge_hold(connection, number, seen=hold.messages)
    return _confirmed(request, "purged", number)


def shards(connection: Connection, viewer: Viewer) -> list[ShardStatus]:
    """Return the shards, without their errors if the user may not read them."""
    unless = may_read_texts(viewer, [dag_ids.OUTBOX])
    return [hide(shard, "last_error", unless=unless) for shard in admin.shards(connection)]


def holds(connection: Connection, viewer: Viewer) -> list[Hold]:
    """Return the holds, without their keys and reasons if the user may not read them."""
    unless = may_read_texts(viewer, [dag_ids.OUTBOX])
    return [hide(hold, "key", "reason", unless=unless) for hold in admin.holds(connection)]


def _confirmed(request: Request, done: Done, number: int) -> Response:
    return RedirectResponse(f"{Place.of(request).page('outbox')}?done={done}&number={number}", 303)


def _get_hold(known: Sequence[Hold], number: int) -> Hold:
    found = next((hold for hold in known if hold.id == number), None)
    if found is None:
        raise HTTPException(404, f"There is no hold {number}: its messages were sent, released, or purged.")
    return found
