"""A person decides how a partition of a Kafka trigger continues: which kinds apply, what they do, the decision."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from functools import partial
from typing import Annotated, Final

import orjson
from fastapi import Form, HTTPException, Query, Response

from workorders import dag_ids
from workorders.kafka.client.settings import open_admin
from workorders.kafka.exceptions import DecisionRefusedError, DecisionUncertainError
from workorders.kafka.recovery.decisions import Decision, DecisionKind
from workorders.kafka.recovery.resolution import DecisionRequest, preview
from workorders.kafka.recovery.resolution import apply as apply_decisions
from workorders.kafka.status import TRIGGER_TYPE, kafka_sources
from workorders.pages.access import Right
from workorders.pages.forms import Reason, require_number
from workorders.pages.search import read_position, read_time
from workorders.pages.site import Action, CurrentVisit

_LOG = logging.getLogger(__name__)

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
        "Continue at an offset or a time",
        "Forward skips messages, which get no work order. Back reads messages again, without duplicates. A time means "
        "the first message at or after it, by the timestamps of the messages; the end, if there is none.",
    ),
}
"""What each kind of decision is called, and what it does."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A kind of decision, and whether it applies to the partition now."""

    kind: DecisionKind
    decisions: Sequence[Decision]
    """What it would change; empty if it does not apply."""
    refusal: str | None
    """Why it does not apply, or what it still needs."""


def page(
    *,
    visit: CurrentVisit,
    name: str,
    topic: str = "",
    partition: Annotated[int | None, Query(ge=0)] = None,
    kind: DecisionKind | None = None,
    offset: str = "",
    time: str = "",
) -> Response:
    """Show which decisions fit a partition, and the preview of the one that was chosen."""
    if partition is None or not topic:
        return visit.redirect(TRIGGER_TYPE, name)
    visit.viewer.require(Right.ACT, dag_ids.ingest(name))
    with visit.site.reading() as connection:
        (source,) = kafka_sources(connection, name)
        connection.rollback()
        cluster = open_admin(source.kafka_connection, visit.site.kafka_settings)
        place = read_position("offset", offset), read_time("time", time, visit.now)
        wanted = DecisionRequest(DecisionKind.SEEK, name, topic, (partition,), *place)
        choices = [_choice(partial(preview, connection, cluster), replace(wanted, kind=each)) for each in DecisionKind]
    chosen = next((choice for choice in choices if choice.kind == kind), None)
    return visit.show(
        "resolve.html",
        name=name,
        topic=topic,
        partition=partition,
        meanings=MEANINGS,
        choices=choices,
        chosen=chosen,
        offset=offset,
        time=time,
        # What was typed may mean another time when the decision is confirmed.
        fixed_time=wanted.time.astimezone(UTC).isoformat() if wanted.time else "",
        lost=given_up(chosen.decisions) if chosen else 0,
        facts=_facts(chosen.decisions) if chosen else "",
    )


def resolve(
    *,
    action: Action,
    name: str,
    topic: Annotated[str, Form()],
    partition: Annotated[int, Form(ge=0)],
    kind: Annotated[DecisionKind, Form()],
    facts: Annotated[str, Form()],
    reason: Reason,
    offset: Annotated[str, Form()] = "",
    time: Annotated[str, Form()] = "",
    typed: Annotated[str, Form()] = "",
) -> Response:
    """Apply a decision, exactly as the person saw it, if neither the ledger nor Kafka has moved since the preview."""
    action.viewer.require(Right.ACT, dag_ids.ingest(name))
    with action.site.writing() as connection:
        (source,) = kafka_sources(connection, name)
        connection.rollback()
        cluster = open_admin(source.kafka_connection, action.site.kafka_settings)
        place = read_position("offset", offset), read_time("time", time, action.now)
        decisions = preview(connection, cluster, DecisionRequest(kind, name, topic, (partition,), *place))
        if _facts(decisions) != facts:
            raise HTTPException(
                409,
                f"{name}: {topic} {partition} has changed since the preview, so nothing was changed. Go back, look at "
                f"the new preview, and decide again.",
            )
        if lost := given_up(decisions):
            require_number(typed, lost, where=f"{name}: {topic} {partition}", counted="offsets that are given up")
        connection.rollback()
        decided = [str(decision) for decision in decisions]
        action.record("resolve", [dag_ids.ingest(name)], trigger=name, reason=reason, decisions=decided)
        try:
            (number,), warnings = apply_decisions(
                connection, cluster, decisions, action.by(reason), group=source.consumer_group
            )
        except DecisionUncertainError as error:
            raise HTTPException(504, str(error)) from error
    for warning in warnings:
        _LOG.warning("%s", warning)
    behind = {"group": "behind"} if warnings else {}
    return action.redirect(TRIGGER_TYPE, name, decided=number, **behind)


def given_up(decisions: Sequence[Decision]) -> int:
    """Return the number of offsets that get no work order by these decisions, if it is known."""
    return sum(end - start for start, end in (decision.lost for decision in decisions if decision.lost))


def _choice(preview_of: Callable[[DecisionRequest], Sequence[Decision]], request: DecisionRequest) -> Choice:
    # An offset or a time is required to seek, and refused by what continues where Kafka still has messages.
    fitting = request if request.kind == DecisionKind.SEEK else replace(request, offset=None, time=None)
    try:
        return Choice(request.kind, preview_of(fitting), None)
    except DecisionRefusedError as refusal:
        return Choice(request.kind, [], str(refusal))


def _facts(decisions: Sequence[Decision]) -> str:
    """Return what a person sees of decisions, to be compared when they are applied."""
    return orjson.dumps([decision.facts for decision in decisions]).decode()
