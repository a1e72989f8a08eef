"""Previews an operator's decision, and applies it in one transaction."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

import psycopg
from psycopg.rows import dict_row

from workorders.core import triggers
from workorders.core.attribution import Attribution
from workorders.core.exceptions import WorkOrdersError, one_line
from workorders.core.postgres.connection import Connection, fetch_row, list_rows
from workorders.core.postgres.named_queries import load_queries
from workorders.core.triggers import Trigger, stream_id
from workorders.kafka.exceptions import AnotherClusterError, DecisionRefusedError, DecisionUncertainError
from workorders.kafka.ledger import positions as ledger
from workorders.kafka.partitions import OffsetRange, Partition, error_at
from workorders.kafka.recovery.decisions import Decision, DecisionKind, PartitionFacts, decide, required_decision

if TYPE_CHECKING:
    from workorders.kafka.client.admin import KafkaAdmin


_QUERIES = load_queries("workorders.kafka.recovery", "sql/resolution.sql")


@dataclass(frozen=True, slots=True)
class DecisionRequest:
    """What an operator asks for, before it is checked whether it applies."""

    kind: DecisionKind
    trigger: str
    topic: str
    partitions: tuple[int, ...] = ()
    """Numbers of the partitions; if empty, all that need a decision of this kind."""
    offset: int | None = None
    time: datetime | None = None
    """To seek: continue at the first message at or after this time, or at the end if there is none."""


@dataclass(frozen=True, slots=True)
class RecordedDecision:
    """A decision as it was recorded."""

    id: int
    decided_at: datetime
    actor: str
    reason: str
    trigger: str
    topic: str
    partition: int
    kind: str
    from_topic_id: str
    from_offset: int
    to_topic_id: str
    to_offset: int
    lost_start: int | None
    """First offset that has no work order and gets none; None if none is known."""
    lost_end: int | None
    superseded_batch_id: int | None
    account: str | None
    """The account behind the actor; None if it is unknown."""

    def __str__(self) -> str:
        """Return one sentence: what was decided, when, and by which actor."""
        return (
            f"Decision {self.id} by {self.actor} at {self.decided_at:%Y-%m-%d %H:%M:%S %Z}: {self.trigger}: "
            f"{self.topic} {self.partition}: {self.kind}: the ledger went from {self.from_offset} to {self.to_offset}."
        )


def preview(connection: Connection, cluster: "KafkaAdmin", request: DecisionRequest) -> list[Decision]:
    """Return the decisions that a request leads to, and change nothing.

    Raises:
        UnknownNameError: no trigger has that name.
        DecisionRefusedError: the request does not apply.
        KafkaUnavailableError: the cluster did not answer.
    """
    triggers.find(connection, request.trigger)
    if request.time is not None and (request.kind != DecisionKind.SEEK or request.offset is not None):
        raise DecisionRefusedError(
            f"{request.trigger}: a time is only for {DecisionKind.SEEK}, and only without an offset; nothing was "
            f"changed; give one of both."
        )
    known = _states(connection, request.trigger, request.topic)
    # Kafka is asked outside of any transaction, which must not wait for a network.
    connection.rollback()
    numbers = sorted(set(request.partitions) or known)
    unknown = [str(number) for number in numbers if number not in known]
    if unknown or not known:
        missing = f"partition {', '.join(unknown)} of {request.topic}" if known else f"topic {request.topic}"
        raise DecisionRefusedError(
            f"{request.trigger}: the ledger has no {missing}; nothing was changed; see `workorders status`."
        )
    answers = asyncio.run(cluster.log_ends([request.topic]))
    topic_id = next((log.partition.topic_id for log in answers.found.values()), None)
    chosen = []
    for number in numbers:
        if (error := error_at(answers.errors, known[number].partition)) is not None:
            raise error
        state = replace(known[number], topic_id_now=topic_id, log=answers.found.get((request.topic, number)))
        if request.partitions or required_decision(state) == request.kind:
            chosen.append(state)
    if not chosen:
        raise DecisionRefusedError(
            f"{request.trigger}: no partition of {request.topic} needs the decision {request.kind}; nothing was "
            f"changed; to decide anyway, name a partition by its number."
        )
    offsets = {} if request.time is None else _offsets_at(cluster, chosen, request.time)
    return [decide(request.kind, state, offsets.get(state.partition.partition, request.offset)) for state in chosen]


def _offsets_at(cluster: "KafkaAdmin", states: Sequence[PartitionFacts], time: datetime) -> dict[int, int]:
    """Return where each partition that Kafka has continues at a time, by number."""
    logs = [state.log for state in states if state.log is not None]
    found = asyncio.run(cluster.offsets_at([log.partition for log in logs], int(time.timestamp() * 1000))).require()
    return {
        log.partition.partition: log.last_stable if (offset := found[log.partition]) is None else offset for log in logs
    }


def apply(
    connection: Connection, cluster: "KafkaAdmin", decisions: Sequence[Decision], by: Attribution, *, group: str
) -> tuple[list[int], list[str]]:
    """Apply decisions, all or none, in one transaction.

    The decisions are of one trigger and topic, from `preview`. Offsets of the consumer group follow: they must never be
    ahead of the ledger.

    Returns:
        The numbers under which the decisions are recorded; and what failed in addition, which is that the consumer
        group's offsets were not written.

    Raises:
        DecisionRefusedError: a range is being written, the partition has changed since the preview, or the actor or
            the reason is blank.
        DecisionUncertainError: the connection was lost, so it is unknown whether the decision was made.
        psycopg.Error: the database failed; nothing was changed.
    """
    if not by.actor.strip() or not by.reason.strip():
        raise DecisionRefusedError("A decision needs an actor and a reason; nothing was changed.")
    warnings: list[str] = []
    try:
        signature = {**asdict(by), "cluster_id": asyncio.run(cluster.cluster_id())}
        with connection.transaction():
            trigger = triggers.find(connection, decisions[0].state.trigger)
            # No commit to the group may overtake this one. Nothing else is locked while Kafka is asked, so planners and
            # attempts at other partitions of the trigger do not wait.
            ledger.lock_group_commits(connection, trigger.id)
            back = {decision.to: decision.to_offset for decision in decisions if decision.goes_back}
            if back:
                with connection.transaction(force_rollback=True):  # a savepoint: its locks end with it
                    _lock(connection, trigger, decisions)
                _commit(cluster, group, back, warnings)
            _lock(connection, trigger, decisions)
            numbers = [_record(connection, trigger, decision, signature) for decision in decisions]
    except psycopg.OperationalError as error:
        if not connection.broken:
            raise
        raise DecisionUncertainError(
            f"The connection to the database was lost ({one_line(error)}), so the decision was made or was not; see "
            f"`workorders decisions list` before you decide again."
        ) from error
    _commit_forward(connection, cluster, decisions, group, warnings)
    return numbers, warnings


def _commit_forward(
    connection: Connection, cluster: "KafkaAdmin", decisions: Sequence[Decision], group: str, warnings: list[str]
) -> None:
    """Commit the group's offsets where the ledger moved forward, as after each batch."""
    # A partition that Kafka does not have has no offset in any group.
    forward = {decision.to for decision in decisions if decision.state.log is not None and not decision.goes_back}
    try:
        with connection.transaction():
            trigger = triggers.find(connection, decisions[0].state.trigger)
            ledger.lock_group_commits(connection, trigger.id)
            now = ledger.positions(connection, trigger.name)
            ends = {partition: now[partition].next_offset for partition in forward & now.keys()}
            _commit(cluster, group, ends, warnings)
    except psycopg.Error as error:
        reason = one_line(error)
        warnings.append(f"The decision was made; the consumer group's offsets follow with the next batch ({reason}).")


def list_decisions(
    connection: Connection, trigger: str | None = None, *, before: int | None = None, limit: int = 50
) -> list[RecordedDecision]:
    """Return decisions, newest first; a page ends before the decision `before`."""
    wanted = {"trigger": trigger, "before": before, "limit": limit}
    return list_rows(connection, RecordedDecision, _QUERIES["decisions"], wanted)


def _states(connection: Connection, trigger: str, topic: str) -> dict[int, PartitionFacts]:
    """Return the state of each partition in the database, by number; Kafka is not asked."""
    states = {}
    with connection.cursor(row_factory=dict_row) as cursor:
        for row in cursor.execute(_QUERIES["facts"], {"trigger": trigger, "topic": topic}):
            number, topic_id, held_topic_id = row.pop("partition"), row.pop("topic_id"), row.pop("held_topic_id")
            held = OffsetRange(Partition(topic, number, held_topic_id), row.pop("held_start"), row.pop("held_end"))
            states[number] = PartitionFacts(
                trigger, Partition(topic, number, topic_id), held=None if held_topic_id is None else held, **row
            )
    return states


def _lock(connection: Connection, trigger: Trigger, decisions: Sequence[Decision]) -> None:
    """Lock out planners and writers; refuse if a range is being written, or the state has changed since the preview.

    An attempt that is about to write is fenced: a decision gives the partition a new epoch.
    """
    ledger.lock_trigger(connection, trigger)
    states = [decision.state for decision in decisions]
    topic = states[0].partition.topic
    numbers = [state.partition.partition for state in states]
    try:
        connection.execute(_QUERIES["lock_ledger"], {"trigger_id": trigger.id, "topic": topic, "partitions": numbers})
    except psycopg.errors.LockNotAvailable as error:
        raise DecisionRefusedError(
            f"{trigger.name}: a range of {topic} {', '.join(map(str, numbers))} is being written; nothing was changed; "
            f"decide again after that."
        ) from error
    now = _states(connection, trigger.name, topic)
    for state in states:
        if now.get(state.partition.partition) != replace(state, topic_id_now=None, log=None):
            raise DecisionRefusedError(
                f"{trigger.name}: {state.partition} has changed since the preview; nothing was changed; look again, "
                f"and decide again."
            )


def _record(connection: Connection, trigger: Trigger, decision: Decision, signature: Mapping[str, str | None]) -> int:
    """Record the decision, supersede the range, and set the ledger; return the decision's number."""
    state = decision.state
    place = {"topic": state.partition.topic, "partition": state.partition.partition}
    (decision_id,) = fetch_row(
        connection, _QUERIES["insert_decision"], {**decision.facts, **signature, "trigger_id": trigger.id}
    )
    if state.batch_id is not None:
        connection.execute(
            _QUERIES["supersede_range"], {**place, "decision_id": decision_id, "batch_id": state.batch_id}
        )
    is_new_log = decision.another_log or decision.to != state.partition
    generation = decision_id if decision.another_log else 0 if is_new_log else state.generation
    connection.execute(
        _QUERIES["set_position"],
        {
            **place,
            "trigger_id": trigger.id,
            "cluster_id": signature["cluster_id"],
            "to_topic_id": decision.to.topic_id,
            "stream_id": stream_id(connection, trigger, ledger.stream_name(decision.to, generation)),
            "generation": generation,
            "start_offset": decision.to_offset if is_new_log else min(state.start_offset, decision.to_offset),
            "to_offset": decision.to_offset,
            "is_new_log": is_new_log,
            "superseded_batch": state.batch_id,
        },
    )
    return int(decision_id)


def _commit(cluster: "KafkaAdmin", group: str, positions: dict[Partition, int], warnings: list[str]) -> None:
    """Commit the group's offsets; only people and lag tools need them, so a failure does not stop the decision."""
    try:
        asyncio.run(cluster.commit(group, positions))
    except WorkOrdersError as error:
        warnings.append(str(error))


def remove_topic(connection: Connection, cluster: "KafkaAdmin", trigger: str, topic: str) -> int:
    """Remove the partitions of a topic that Kafka does not have, and commit; return how many. Work orders stay.

    Raises:
        UnknownNameError: no trigger has that name.
        DecisionRefusedError: Kafka has the topic, the ledger does not, or a batch holds a partition.
        AnotherClusterError: the topic was found in another cluster than the one that was asked.
        KafkaUnavailableError: the cluster did not answer.
    """
    known = ledger.positions(connection, trigger)
    # Kafka is asked outside of any transaction, which must not wait for a network.
    connection.rollback()
    cluster_id = asyncio.run(cluster.cluster_id())
    for position in known.values():
        if position.partition.topic == topic and position.cluster_id not in {None, cluster_id}:
            raise AnotherClusterError.of(f"{trigger}: {topic}", str(position.cluster_id), cluster_id)
    if asyncio.run(cluster.log_ends([topic])).require():
        raise DecisionRefusedError(f"{trigger}: Kafka has the topic {topic}; nothing was changed. Delete it first.")
    with connection.transaction():
        removed = ledger.remove_topic(connection, triggers.find(connection, trigger), topic)
    if not removed:
        raise DecisionRefusedError(
            f"{trigger}: the ledger has no topic {topic}, or a batch holds a partition of it; nothing was changed; see "
            f"`workorders status`."
        )
    return removed
