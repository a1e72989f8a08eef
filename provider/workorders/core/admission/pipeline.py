"""Applies the rules of a trigger to the work orders that one call of `create_for` wrote, in the same transaction.

All work orders are written first, as fast as without rules. The exception is an event that repeats another one of its
chunk: it is written as rejected. At the end of the call the rules decide once, with a few statements for all work
orders. So locks are held only until the commit, and every transaction takes them in the same order: the list of rules.
Locking after each chunk could make two transactions wait for each other. Until then each work order needs some hundred
bytes of memory.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from workorders.core.admission import duplicates, idempotency
from workorders.core.admission.duplicates import Ignored
from workorders.core.admission.idempotency import IdempotencyRule
from workorders.core.admission.rules import AdmissionState, Chunk, LimitRule, Rule, SequenceRule
from workorders.core.admission.sequence_order import AdmissionRejection
from workorders.core.items import Item
from workorders.core.postgres.arrays import uuids
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.core.rule_settings import RuleSettings
from workorders.core.triggers import Trigger

_QUERIES = load_queries("workorders.core.admission", "sql/pipeline.sql")


class AdmissionResult(NamedTuple):
    """What became of written work orders."""

    rejected: int
    """Had an input, and were rejected."""
    rejected_inline: int
    """Had an input, and were written as rejected from the start."""
    ignored: Ignored
    """Were deleted again."""


class AdmissionPipeline:
    """The rules of one trigger, applied to what one call of `create_for` writes."""

    def __init__(self, connection: Connection, trigger: Trigger, rules: RuleSettings) -> None:
        self._state = AdmissionState(connection, trigger)
        self._rules = _in_lock_order(rules)

    def observe(
        self, chunk: Chunk, stream_ids: Mapping[str | None, int | None], *, unwritten: bool = False
    ) -> Iterator[tuple[bytes, Item]]:
        """Yield the work orders of a chunk in the order of their ids, and note what the rules need of them.

        If the caller copies them into a table meanwhile, Postgres works in parallel, so noting costs little time.

        Args:
            chunk: the work orders; the caller calls `add` with it once its savepoint is released.
            stream_ids: of every stream in the chunk.
            unwritten: no row of the chunk is written yet. A repeat of another event of the chunk is then yielded as
                rejected, because rejecting it after it was written costs several times as much.
        """
        found = (rule.observe(chunk, stream_ids, unwritten=unwritten) for rule in self._rules)
        observers = [observer for observer in found if observer is not None]
        for place, pair in enumerate(chunk):
            for observer in observers:
                rejected = observer(*pair)
                if rejected is not None:
                    chunk.items[place] = rejected
                    yield pair[0], rejected
                    break
            else:
                yield pair

    def add(self, chunk: Chunk) -> None:
        """Add a chunk whose savepoint is released to what `decide` decides."""
        self._state.add(chunk)

    def decide(self) -> AdmissionResult:
        """Decide which of the added work orders wait for a run, and write that.

        Raises:
            HardLimitError: the workflow has capacity for fewer work orders; the caller must roll back.
        """
        state = self._state
        for rule in self._rules:
            rule.lock(state)
        for rule in self._rules:
            rule.decide(state)
        for rule in self._rules:
            rule.write(state)
        ignored = duplicates.ignore(state.connection, state.ignored)
        reject_written(state.connection, state.rejections)
        # Last, because from here on this transaction waits for no other one, so the order of these locks is free.
        acquired = sum(map(len, state.keys.values()))
        if acquired:  # more than were added, so that the table stays as large as the windows need
            idempotency.expire(state.connection, 2 * acquired + 1)
        return AdmissionResult(len(state.rejections), len(state.repeats), ignored)


def reject_written(connection: Connection, rejected: Sequence[AdmissionRejection]) -> None:
    """Make rejected work orders of pending ones. The input becomes the raw value, as Postgres writes it."""
    if rejected:
        arguments = {
            "ids": uuids(part.id for part in rejected),
            "codes": [part.code for part in rejected],
            "details": [part.detail for part in rejected],
            "originals": uuids(part.original for part in rejected),
        }
        connection.execute(_QUERIES["reject"], arguments)


def _in_lock_order(rules: RuleSettings) -> list[Rule]:
    """Return the rules in the order in which every transaction takes their locks."""
    ordered: list[Rule] = []
    if rules.limits is not None:
        ordered.append(LimitRule(rules.limits))
    ordered += [IdempotencyRule(settings) for settings in rules.idempotency]
    if rules.sequence is not None or rules.limits is not None:
        ordered.append(SequenceRule(rules.sequence))
    return ordered
