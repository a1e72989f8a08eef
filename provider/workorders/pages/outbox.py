"""The outbox: shards, held messages and why, and how a person releases or purges them."""

from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import Form, HTTPException, Query, Response

from workorders import dag_ids
from workorders.core.postgres.connection import Connection
from workorders.outbox import admin
from workorders.outbox.admin import Hold, ShardStatus
from workorders.pages.access import Right, Viewer, hide, may_read_texts
from workorders.pages.forms import require_number
from workorders.pages.site import Action, CurrentVisit

Done = Literal["released", "purged"]
"""What a person has just decided, in the address of the page."""


def page(visit: CurrentVisit, done: Done | None = None, number: Annotated[int | None, Query(ge=0)] = None) -> Response:
    """Show shards and holds."""
    viewer = visit.viewer
    viewer.require(Right.READ, dag_ids.OUTBOX)
    with visit.site.reading() as connection:
        oldest_at, shown, held = admin.oldest_at(connection), shards(connection, viewer), holds(connection, viewer)
    relays = [dag_ids.OUTBOX, *(dag_ids.outbox(shard.shard) for shard in shown if shard.shard)]
    return visit.show(
        "outbox.html",
        shards=shown,
        oldest_at=oldest_at,
        holds=held,
        # Anybody can write an address; a hold that is there contradicts it.
        done=None if number in {None, *(hold.id for hold in held)} else done,
        number=number,
        paused=[relay for relay, is_paused in visit.site.paused_dags(relays).items() if is_paused],
    )


def hold_page(visit: CurrentVisit, number: int) -> Response:
    """Show a hold, and what to release and to purge it does."""
    viewer = visit.viewer
    viewer.require(Right.READ, dag_ids.OUTBOX)
    with visit.site.reading() as connection:
        hold = _get_hold(holds(connection, viewer), number)
    may_release, may_purge = (viewer.may(right, dag_ids.OUTBOX) for right in (Right.RELEASE, Right.PURGE))
    return visit.show("hold.html", hold=hold, may_release=may_release, may_purge=may_purge)


def release(action: Action, number: int) -> Response:
    """End a hold, so that its messages are tried now, in their place."""
    action.viewer.require(Right.RELEASE, dag_ids.OUTBOX)
    with action.site.writing() as connection:
        hold = _get_hold(admin.holds(connection), number)
        connection.rollback()
        action.record("release_hold", [dag_ids.OUTBOX], hold=number, topic=hold.topic)
        admin.release_hold(connection, number)
    return action.redirect("outbox", done="released", number=number)


def purge(action: Action, number: int, typed: Annotated[str, Form()] = "") -> Response:
    """Delete the messages of a hold unsent, after their number was typed."""
    action.viewer.require(Right.PURGE, dag_ids.OUTBOX)
    with action.site.writing() as connection:
        hold = _get_hold(admin.holds(connection), number)
        require_number(typed, hold.messages, where=f"Hold {number}", counted="its messages")
        connection.rollback()
        action.record("purge_hold", [dag_ids.OUTBOX], hold=number, topic=hold.topic, messages=hold.messages)
        # Messages that follow a held one come to the hold until it ends.
        admin.purge_hold(connection, number, seen=hold.messages)
    return action.redirect("outbox", done="purged", number=number)


def shards(connection: Connection, viewer: Viewer) -> list[ShardStatus]:
    """Return the shards, without their errors if the user may not read them."""
    unless = may_read_texts(viewer, [dag_ids.OUTBOX])
    return [hide(shard, "last_error", unless=unless) for shard in admin.shards(connection)]


def holds(connection: Connection, viewer: Viewer) -> list[Hold]:
    """Return the holds, without their keys and reasons if the user may not read them."""
    unless = may_read_texts(viewer, [dag_ids.OUTBOX])
    return [hide(hold, "key", "reason", unless=unless) for hold in admin.holds(connection)]


def _get_hold(known: Sequence[Hold], number: int) -> Hold:
    found = next((hold for hold in known if hold.id == number), None)
    if found is None:
        raise HTTPException(404, f"There is no hold {number}: its messages were sent, released, or purged.")
    return found
