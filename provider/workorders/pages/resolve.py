"""A person decides how a partition of a Kafka trigger continues: what fits, what it does, why, and the decision."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import orjson
from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse

from workorders.core.postgres.connection import Connection
from workorders.kafka.client.open import open_admin
from workorders.kafka.exceptions import DecisionRefusedError
from workorders.kafka.recovery.decisions import Decision, DecisionKind
from workorders.kafka.recovery.resolution import AppliedDecisions, DecisionRequest, preview
from workorders.kafka.recovery.resolution import apply as apply_decisions
from workorders.pages import csrf, dag_ids
from workorders.pages.access import CurrentViewer, Right
from workorders.pages.csrf import CurrentActor
from workorders.pages.kafka_trigger import source_of
from workorders.pages.problems import ChangedMeanwhileError, WrongInputError
from workorders.pages.rendering import render
from workorders.pages.site import CurrentSite
from workorders.pages.threads import PageRoute

if TYPE_CHECKING:
    from workorders.kafka.client.admin import KafkaAdmin

router = APIRouter(route_class=PageRoute)

MEANINGS: Final[Mapping[DecisionKind, tuple[str, str]]] = {
    DecisionKind.SKIP_LOST: (
        "Skip what Kafka has lost",
        "Reading continues at the first offset that Kafka still has, or at the end of a truncated log.",
    ),
    DecisionKind.ACCEPT_TOPIC: (
        "Follow the new topic",
        "The topic was deleted and created again: its offsets are other messages. Work orders of the old one stay.",
    ),
    DecisionKind.SEEK: (
        "Continue at an offset",
        "Forward skips messages, which get no work order. Back reads messages again, without duplicates.",
    ),
}
"""What each kind of decision is called, and what it does."""
_MAX_REASON: Final = 1_000


@dataclass(frozen=True, slots=True)
class Choice:
    """A kind of decision, and whether it fits the partition now."""

    kind: DecisionKind
    title: str
    meaning: str
    decisions: Sequence[Decision]
    """What it would change; empty if it does not fit."""
    refusal: str | None
    """Why it does not fit, or what it still needs."""


@router.get("/kafka/{name}/resolve")
def page(
    *,
    request: Request,
    site: CurrentSite,
    viewer: CurrentViewer,
    name: str,
    topic: str,
    partition: Annotated[int, Query(ge=0)],
    kind: DecisionKind | None = None,
    offset: Annotated[str, Query()] = "",
) -> HTMLResponse:
    """Show which decisions fit a partition, and the preview of the one that was chosen."""
    viewer.require(Right.ACT, dag_ids.ingest(name))
    now = datetime.now(UTC)
    with site.reading() as connection:
        source = source_of(connection, viewer, name)
        token = csrf.new_token(csrf.form_key(connection), viewer.id, now)
        connection.rollback()
        cluster = open_admin(source.kafka_connection, site.kafka_settings)
        wanted = _offset(offset)
        choices = [
            _choice(connection, cluster, DecisionRequest(each, name, topic, (partition,), wanted))
            for each in DecisionKind
        ]
    chosen = next((choice for choice in choices if choice.kind == kind), None)
    return render(
        request,
        "resolve.html",
        now=now,
        name=name,
        topic=topic,
        partition=partition,
        choices=choices,
        chosen=chosen,
        offset=offset,
        lost=given_up(chosen.decisions) if chosen else 0,
        facts=_facts(chosen.decisions) if chosen else "",
        csrf=token,
        who=viewer.name,
    )


@router.post("/kafka/{name}/resolve")
def resolve(
    *,
    request: Request,
    site: CurrentSite,
    actor: CurrentActor,
    name: str,
    topic: Annotated[str, Form()],
    partition: Annotated[int, Form(ge=0)],
    kind: Annotated[DecisionKind, Form()],
    facts: Annotated[str, Form()],
    reason: Annotated[str, Form()] = "",
    offset: Annotated[str, Form()] = "",
    typed: Annotated[str, Form()] = "",
) -> HTMLResponse:
    """Apply a decision, exactly as the person saw it.

    Raises:
        ChangedMeanwhileError: the ledger or Kafka has moved since the preview; nothing was changed.
    """
    actor.require(Right.ACT, dag_ids.ingest(name))
    reason = " ".join(reason.split())
    if not reason or len(reason) > _MAX_REASON:
        raise WrongInputError(
            f"reason: nothing was changed, because this takes 1 to {_MAX_REASON} characters, which are recorded."
        )
    with site.writing() as connection:
        source = source_of(connection, actor, name)
        connection.rollback()
        cluster = open_admin(source.kafka_connection, site.kafka_settings)
        request_ = DecisionRequest(kind, name, topic, (partition,), _offset(offset))
        decisions = preview(connection, cluster, request_)
        if _facts(decisions) != facts:
            raise ChangedMeanwhileError(
                f"{name}: {topic} {partition} has changed since the preview, so nothing was changed. Go back, look at "
                f"the new preview, and decide again."
            )
        lost = given_up(decisions)
        if lost and "".join(char for char in typed if char.isdigit()) != str(lost):
            raise WrongInputError(
                f"{name}: {topic} {partition}: nothing was changed, because the number of offsets that are given up "
                f"({lost:,}) was not typed."
            )
        connection.rollback()
        applied: AppliedDecisions = apply_decisions(
            connection,
            cluster,
            decisions,
            actor=actor.name,
            account=actor.name,
            reason=reason,
            group=source.group,
        )
    return render(request, "resolved.html", name=name, applied=applied, who=actor.name, reason=reason)


def given_up(decisions: Sequence[Decision]) -> int:
    """Return the number of offsets that get no work order by these decisions, as far as it is known."""
    return sum(end - start for start, end in (decision.lost for decision in decisions if decision.lost))


def _choice(connection: Connection, cluster: "KafkaAdmin", request: DecisionRequest) -> Choice:
    title, meaning = MEANINGS[request.kind]
    # An offset is required to seek, and refused by what continues where Kafka still has messages.
    fitting = request if request.kind == DecisionKind.SEEK else replace(request, offset=None)
    try:
        return Choice(request.kind, title, meaning, preview(connection, cluster, fitting), None)
    except DecisionRefusedError as refusal:
        return Choice(request.kind, title, meaning, [], str(refusal))


def _facts(decisions: Sequence[Decision]) -> str:
    """Return what a person sees of decisions, to be compared when they are applied."""
    return orjson.dumps([decision.facts for decision in decisions]).decode()


def _offset(text: str) -> int | None:
    if not text.strip():
        return None
    if not (text.strip().isascii() and text.strip().isdigit()):
        raise WrongInputError("offset: nothing was changed, because this takes a whole number from 0.")
    return int(text)
