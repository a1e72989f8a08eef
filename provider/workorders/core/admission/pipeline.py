"""Applies the rules of a trigger to the work orders that one call of `create_for` wrote, in the same transaction.

All work orders are written first, as fast as without rules. At the end of the call the rules decide once, with a few
statements for all work orders. So locks are held only until the commit, and every transaction takes them in the same
order: the list of rules. Locking after each chunk could make two transactions wait for each other. Until then each work
order needs some hundred bytes of memory.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from workorders.core.admission import duplicates
from workorders.core.admission.duplicates import Ignored
from workorders.core.admission.idempotency import IdempotencyRule
from workorders.core.admission.limits import LimitRule
from workorders.core.admission.rules import AdmissionRejection, AdmissionState, Chunk, Rule, StreamIds
from workorders.core.admission.sequences import SequenceRule
from workorders.core.items import Item
from workorders.core.postgres.arrays import uuids
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.core.triggers import Trigger

_QUERIES = load_queries("workorders.core.admission", "sql/pipeline.sql")

RULES: Final[tuple[type[Rule], ...]] = (LimitRule, IdempotencyRule, SequenceRule)
"""In the order in which every transaction takes their locks."""
REASONS: Final = sorted({reason for rule in RULES for reason in rule.reasons})
"""With which rules reject work orders that have an input."""


class AdmissionPipeline:
    """The rules of one trigger, applied to what one call of `create_for` writes."""

    def __init__(self, state: AdmissionState, rules: Sequence[Rule]) -> None:
        self._state = state
        self._rules = rules

    @classmethod
    def of(
        cls, connection: Connection, trigger: Trigger, more: Sequence[Rule] = (), *, by_person: bool = False
    ) -> "AdmissionPipeline | None":
        """Return the rules of a trigger; None if it has none, which costs nothing.

        Args:
            connection: in the caller's transaction.
            trigger: whose rules apply.
            more: rules of this call alone; each precedes the trigger's rules of its kind.
            by_person: a person reruns the work orders, so that limits only count them.
        """
        rules: list[Rule] = []
        for kind in RULES:
            rules += [rule for rule in more if isinstance(rule, kind)]
            rules += kind.of(trigger)
        return cls(AdmissionState(connection, trigger, by_person), rules) if rules else None

    def observe(self, chunk: Chunk, stream_ids: StreamIds) -> Iterator[tuple[bytes, Item]]:
        """Yield the work orders of a chunk in the order of their ids, and note what the rules need of them.

        If the caller copies them into a table meanwhile, Postgres works in parallel, so noting costs little time.
        """
        found = (rule.observe(chunk, stream_ids) for rule in self._rules)
        observers = [observer for observer in found if observer is not None]
        for pair in chunk:
            for observer in observers:
                observer(*pair)
            yield pair

    def add(self, chunk: Chunk) -> None:
        """Add a chunk whose savepoint is released to what `decide` decides."""
        self._state.with_input += sum(item.body is not None for item in chunk.items)
        for rule, notes in chunk.notes.items():
            rule.notes += notes

    def decide(self) -> tuple[int, Ignored]:
        """Decide which of the added work orders wait for a run, and write that.

        Returns:
            How many had an input and were rejected, and how many were deleted again.
        """
        state = self._state
        for rule in self._rules:
            rule.decide(state)
        for rule in self._rules:
            rule.write(state)
        ignored = duplicates.ignore(state.connection, state.ignored)
        reject_written(state.connection, state.rejections)
        for rule in self._rules:
            rule.clean_up(state)
        return len(state.rejections), ignored


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
