"""Makes an operator's decision: looks, shows what would follow, and does it in one transaction."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

import psycopg
from psycopg.rows import class_row

from workorders.core import triggers
from workorders.core.exceptions import WorkOrdersError, one_line
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.core.triggers import Trigger, stream_id
from workorders.kafka.exceptions import DecisionRefusedError, DecisionUncertainError
from workorders.kafka.ledger import positions as ledger
from workorders.kafka.ledger.attempt_lock import try_exclude_attempts
from workorders.kafka.partitions import OffsetRange, Partition
from workorders.kafka.recovery.decisions import Decision, Kind, Standing, called_for, decide

if TYPE_CHECKING:
    from workorders.kafka.client.admin import KafkaAdmin

_QUERIES = load_queries("workorders.kafka.recovery", "sql/decisions.sql")


@dataclass(frozen=True, slots=True)
class Wish:
    """What an operator wants, before anybody looked whether it fits."""

    kind: Kind
    trigger: str
    topic: str
    partitions: tuple[int, ...] = ()
    """Which partitions; all that call for a decision of this kind when empty."""
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """What was done."""

    decisions: tuple[tuple[int, Decision], ...]
    """Each decision with the number that it is recorded under."""
    warnings: tuple[str, ...] = ()
    """What could not be done beside it: the consumer group's offsets were not written."""


@dataclass(frozen=True, slots=True)
class RecordedDecision:
    """A decision as it was recorded."""

    id: int
    decided_at: datetime
    who: str
    why: str
    trigger: str
    topic: str
    partition: int
    kind: str
    from_topic_id: str
    from_offset: int
    to_topic_id: str
    to_offset: int
    lost_start: int | None
    """First offset of the log so far that has no work order and gets none; None when none is known."""
    lost_end: int | None
    superseded_batch_id: int | None
    account: str | None
    """The account that the decision was made from; None where nobody knows."""

    def __str__(self) -> str:
        """Return what was decided, when and by whom, as one sentence."""
        return (
            f"Decision {self.id} by {self.who} at {self.decided_at:%Y-%m-%d %H:%M:%S %Z}: {self.trigger}: {self.topic} "
            f"{self.partition}: {self.kind}: the ledger went from {self.from_offset} to {self.to_offset}."
        )


def consider(connection: Connection, cluster: "KafkaAdmin", wish: Wish) -> list[Decision]:
    """Return what would be done, and change nothing.

    Raises:
        UnknownTriggerError: no trigger has that name.
        DecisionRefusedError: it does not fit.
        KafkaUnavailableError: the cluster did not answer.
    """
    triggers.find(connection, wish.trigger)
    known = _standings(connection, wish.trigger, wish.topic)
    # Kafka is asked outside of any transaction, which must not wait for a network.
    connection.rollback()
    if not known:
        raise DecisionRefusedError(
            f"{wish.trigger}: the ledger has no topic {wish.topic}; nothing was changed; see `workorders status`."
        )
    logs = asyncio.run(cluster.log_ends([wish.topic]))
    topic_id = next((log.partition.topic_id for log in logs.values()), None)
    standings = {
        number: replace(standing, topic_id_now=topic_id, log=logs.get((wish.topic, number)))
        for number, standing in known.items()
    }
    unknown = [str(number) for number in wish.partitions if number not in standings]
    if unknown:
        raise DecisionRefusedError(
            f"{wish.trigger}: the ledger has no partition {', '.join(unknown)} of {wish.topic}; nothing was changed."
        )
    chosen = [standings[number] for number in sorted(set(wish.partitions))] or [
        standing for standing in standings.values() if called_for(standing) == wish.kind
    ]
    if not chosen:
        raise DecisionRefusedError(
            f"{wish.trigger}: no partition of {wish.topic} calls for the decision {wish.kind}; nothing was changed; "
            f"name one by its number if you want it all the same."
        )
    return [decide(wish.kind, standing, wish.offset) for standing in chosen]


def make(
    connection: Connection,
    cluster: "KafkaAdmin",
    decisions: Sequence[Decision],
    *,
    who: str,
    why: str,
    group: str,
    account: str | None = None,
    request_key: str | None = None,
) -> Made:
    """Do what was considered, all of it or nothing, in one transaction.

    Args:
        connection: no transaction is open on it.
        cluster: for the consumer group's offsets, which must never be ahead of the ledger.
        decisions: of one trigger and topic, from `consider`.
        who: who decided.
        why: the reason, in the operator's words.
        group: the trigger's consumer group.
        account: the account that it is made from, whatever `who` says.
        request_key: names the request, which is decided once.

    Raises:
        DecisionRefusedError: an attempt is at work, something has changed since, the request was decided already, or
            who or why is blank.
        DecisionUncertainError: the connection was lost, so that nobody knows whether the decision was made.
        psycopg.Error: the database failed; nothing was changed.
    """
    if not who.strip() or not why.strip():
        raise DecisionRefusedError("A decision needs who made it, and why; nothing was changed.")
    warnings: list[str] = []
    try:
        numbers = _make(connection, cluster, decisions, _Request(who, why, account, request_key), group, warnings)
    except psycopg.OperationalError as error:
        if not connection.broken:
            raise
        raise DecisionUncertainError(
            f"The connection to the database was lost ({one_line(error)}); whether the decision was made, "
            f"`workorders decisions` knows."
        ) from error
    _follow(connection, cluster, decisions, group, warnings)
    return Made(tuple(zip(numbers, decisions, strict=True)), tuple(warnings))


@dataclass(frozen=True, slots=True)
class _Request:
    who: str
    why: str
    account: str | None
    request_key: str | None


def _make(  # noqa: PLR0917 - the parts of `make`
    connection: Connection,
    cluster: "KafkaAdmin",
    decisions: Sequence[Decision],
    request: _Request,
    group: str,
    warnings: list[str],
) -> list[int]:
    with connection.transaction():
        trigger = triggers.find(connection, decisions[0].standing.trigger)
        # No commit to the group may overtake this one. That is all that is locked while Kafka is asked: a planner or an
        # attempt at other partitions of the trigger must not wait for it.
        ledger.lock_group_commits(connection, trigger.id)
        _require_undecided(connection, request)
        back = {decision.to: decision.to_offset for decision in decisions if decision.goes_back}
        if back:
            with connection.transaction(force_rollback=True):  # a savepoint: its locks end with it
                _lock(connection, trigger, decisions)
            _commit(cluster, group, back, warnings)
        _lock(connection, trigger, decisions)
        return [_record(connection, trigger, decision, request) for decision in decisions]


def _require_undecided(connection: Connection, request: _Request) -> None:
    """Refuse a request that another process has decided since this one looked."""
    earlier = decided_by_request(connection, request.request_key) if request.request_key else []
    if earlier:
        raise DecisionRefusedError(
            f"The request {request.request_key} was decided already; nothing was changed now. "
            f"{' '.join(map(str, earlier))}"
        )


def _follow(
    connection: Connection, cluster: "KafkaAdmin", decisions: Sequence[Decision], group: str, warnings: list[str]
) -> None:
    """Let the group's offsets follow a ledger that went forward, as they do after each batch."""
    forward = {decision.to for decision in decisions if _moves_forward(decision)}
    try:
        with connection.transaction():
            trigger = triggers.find(connection, decisions[0].standing.trigger)
            ledger.lock_group_commits(connection, trigger.id)
            now = ledger.positions(connection, trigger.name)
            _commit(cluster, group, {part: now[part].next_offset for part in forward if part in now}, warnings)
    except psycopg.Error as error:
        reason = one_line(error)
        warnings.append(f"The decision is made; the consumer group's offsets follow with the next batch ({reason}).")


def recorded(
    connection: Connection, trigger: str | None = None, *, before: int | None = None, limit: int = 50
) -> list[RecordedDecision]:
    """Return decisions, newest first; `before` is the number to go on from."""
    return _recorded(connection, {"trigger": trigger, "before": before, "limit": limit, "request_key": None})


def decided_by_request(connection: Connection, request_key: str) -> list[RecordedDecision]:
    """Return what was decided for a request, newest first; nothing when it was not decided."""
    return _recorded(connection, {"trigger": None, "before": None, "limit": None, "request_key": request_key})


def _recorded(connection: Connection, wanted: Mapping[str, object]) -> list[RecordedDecision]:
    with connection.cursor(row_factory=class_row(RecordedDecision)) as cursor:
        return cursor.execute(_QUERIES["decisions"], wanted).fetchall()


def _standings(connection: Connection, trigger: str, topic: str) -> dict[int, Standing]:
    """Return what the database says of each partition, by its number; Kafka was not asked yet."""
    found: dict[int, Standing] = {}
    cursor = connection.execute(_QUERIES["standings"], {"trigger": trigger, "topic": topic})
    for number, topic_id, next_offset, start_offset, generation, batch_id, held_id, start, end in cursor:
        found[number] = Standing(
            trigger=trigger,
            partition=Partition(topic, number, topic_id),
            next_offset=next_offset,
            start_offset=start_offset,
            generation=generation,
            topic_id_now=None,
            log=None,
            held=None if batch_id is None else OffsetRange(Partition(topic, number, held_id), start, end),
            batch_id=batch_id,
        )
    return found


def _lock(connection: Connection, trigger: Trigger, decisions: Sequence[Decision]) -> None:
    """Lock out planners and attempts, and refuse what is at work or not as it was shown."""
    ledger.lock_trigger(connection, trigger)
    standings = [decision.standing for decision in decisions]
    topic = standings[0].partition.topic
    numbers = [standing.partition.partition for standing in standings]
    try:
        connection.execute(_QUERIES["lock_ledger"], {"trigger_id": trigger.id, "topic": topic, "partitions": numbers})
    except psycopg.errors.LockNotAvailable as error:
        raise DecisionRefusedError(
            f"{trigger.name}: an attempt at {topic} {', '.join(map(str, numbers))} is at work; nothing was changed; "
            f"wait for its end, and decide again."
        ) from error
    for batch_id in sorted({standing.batch_id for standing in standings if standing.batch_id is not None}):
        if not try_exclude_attempts(connection, batch_id):
            raise DecisionRefusedError(
                f"{trigger.name}: an attempt at batch {batch_id} is at work; nothing was changed; wait for its end, or "
                f"end the task create_work_orders of its run, and decide again."
            )
    now = _standings(connection, trigger.name, topic)
    for standing in standings:
        if now.get(standing.partition.partition) != replace(standing, topic_id_now=None, log=None):
            raise DecisionRefusedError(
                f"{trigger.name}: {standing.place} has changed since the decision was considered; nothing was changed; "
                f"look again, and decide again."
            )


def _record(connection: Connection, trigger: Trigger, decision: Decision, request: _Request) -> int:
    """Write the decision down, put the range aside, and set the ledger; returns the decision's number."""
    standing = decision.standing
    place = {"topic": standing.partition.topic, "partition": standing.partition.partition}
    lost_start, lost_end = decision.lost or (None, None)
    row = connection.execute(
        _QUERIES["insert_decision"],
        {
            **place,
            "who": request.who,
            "why": request.why,
            "account": request.account,
            "request_key": request.request_key,
            "trigger_id": trigger.id,
            "kind": decision.kind.value,
            "from_topic_id": standing.partition.topic_id,
            "from_offset": standing.next_offset,
            "to_topic_id": decision.to.topic_id,
            "to_offset": decision.to_offset,
            "lost_start": lost_start,
            "lost_end": lost_end,
            "batch_id": standing.batch_id,
        },
    ).fetchone()
    if row is None:  # cannot be: an INSERT ... RETURNING without conflict clause returns its row
        raise LookupError("kafka_decisions")
    decision_id, epoch = row
    if standing.batch_id is not None:
        connection.execute(
            _QUERIES["supersede_range"], {**place, "decision_id": decision_id, "batch_id": standing.batch_id}
        )
    begins_anew = decision.another_log or decision.to != standing.partition
    generation = decision_id if decision.another_log else 0 if begins_anew else standing.generation
    connection.execute(
        _QUERIES["set_position"],
        {
            **place,
            "trigger_id": trigger.id,
            "to_topic_id": decision.to.topic_id,
            "stream_id": stream_id(connection, trigger, ledger.stream_name(decision.to, generation)),
            "generation": generation,
            "start_offset": decision.to_offset if begins_anew else min(standing.start_offset, decision.to_offset),
            "to_offset": decision.to_offset,
            "epoch": epoch,
        },
    )
    return int(decision_id)


def _moves_forward(decision: Decision) -> bool:
    # A partition that Kafka does not have has no offset in any group.
    return decision.standing.log is not None and not decision.goes_back


def _commit(cluster: "KafkaAdmin", group: str, positions: dict[Partition, int], warnings: list[str]) -> None:
    """Write the group's offsets; that they follow is for people and lag tools, and holds no decision up."""
    try:
        asyncio.run(cluster.commit(group, positions))
    except WorkOrdersError as error:
        warnings.append(str(error))
