"""The rules of a trigger in one shape: observe what is written, then lock, decide, and write.

The pipeline calls each step for all rules before the next step, in the order of its list. The rules share the chunks
that were written, and what was decided about them.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from workorders.core.admission import limits, sequence_store
from workorders.core.admission.duplicates import IgnoredRepeat, InlineDuplicate
from workorders.core.admission.limits import Capacity
from workorders.core.admission.sequence_order import (
    RUN_LIMIT,
    AdmissionRejection,
    Decision,
    Entry,
    SequenceState,
    decide,
    parse_number,
)
from workorders.core.items import Item
from workorders.core.postgres.connection import Connection
from workorders.core.rule_settings import IdempotencySettings, LimitSettings, SequenceSettings
from workorders.core.selectors import hash128
from workorders.core.triggers import Trigger

_MAX_NAME: Final = 200

StreamIds = Mapping[str | None, int | None]
Observer = Callable[[bytes, Item], Item | None]
"""Notes a work order while its chunk is written. Returns the item to write instead if it must be rejected."""
Keys = defaultdict[IdempotencySettings, list[bytes]]
"""By the rule that they belong to: what `binary_rows.keyed` returns for each work order with a key."""


def _keys() -> Keys:
    return defaultdict(list)


@dataclass(slots=True)
class Chunk:
    """Work orders written under one savepoint, and what the rules observed. A failed savepoint discards all of it."""

    ids: list[bytes]
    items: list[Item]
    """One for each id. A rule may replace an item by a rejected one before it is written."""
    keys: Keys = field(default_factory=_keys)
    entries: list[Entry] = field(default_factory=list)
    repeats: list[InlineDuplicate] = field(default_factory=list)

    def __iter__(self) -> Iterator[tuple[bytes, Item]]:
        """Yield each id with its item."""
        return zip(self.ids, self.items, strict=True)


@dataclass(slots=True)
class AdmissionState:
    """What one call of `create_for` wrote, without the items, and what its rules decided."""

    connection: Connection
    trigger: Trigger
    keys: Keys = field(default_factory=_keys)
    entries: list[Entry] = field(default_factory=list)
    repeats: list[InlineDuplicate] = field(default_factory=list)
    duplicates: set[bytes] = field(default_factory=set)
    """Work orders that lost their idempotency key to another one; later rules pass over them."""
    capacity: Capacity | None = None
    decision: Decision = field(default_factory=Decision)
    rejections: list[AdmissionRejection] = field(default_factory=list)
    ignored: list[IgnoredRepeat] = field(default_factory=list)

    def add(self, chunk: Chunk) -> None:
        """Add what was observed of a chunk that is written and will not be undone alone."""
        for settings, rows in chunk.keys.items():
            self.keys[settings] += rows
        self.entries += chunk.entries
        self.repeats += chunk.repeats

    def remaining_entries(self) -> list[Entry]:
        """Return the entries that are no duplicates."""
        if not self.duplicates:
            return self.entries
        return [entry for entry in self.entries if entry.id not in self.duplicates]


class Rule:
    """A rule of a trigger during one call of `create_for`. Each step may have nothing to do."""

    def observe(self, chunk: Chunk, stream_ids: StreamIds, *, unwritten: bool) -> Observer | None:
        """Return what notes the work orders of a chunk in it; None if the rule needs nothing of them.

        Of an unwritten chunk the observer may return items to write instead.
        """

    def lock(self, state: AdmissionState) -> None:
        """Lock what the rule shares with other transactions, and read it."""

    def decide(self, state: AdmissionState) -> None:
        """Decide by what was read. Asks no database."""

    def write(self, state: AdmissionState) -> None:
        """Write the decision."""


class LimitRule(Rule):
    """Counts work orders under the lock of their workflow.

    `SequenceRule` spends the capacity, because a work order without capacity must not move its sequence on.
    """

    def __init__(self, settings: LimitSettings) -> None:
        self._settings = settings

    def lock(self, state: AdmissionState) -> None:
        """Lock the count of the workflow, and read its capacity."""
        if state.entries:
            state.capacity = limits.lock(
                state.connection, state.trigger.workflow_id, self._settings, own=len(state.entries)
            )

    def write(self, state: AdmissionState) -> None:
        """Add what is admitted to the count.

        Raises:
            HardLimitError: a hard limit leaves too little capacity.
        """
        if state.capacity is None:
            return
        decision = state.decision
        beyond = sum(part.code == RUN_LIMIT for part in decision.rejected)
        if beyond and self._settings.hard:
            raise limits.limit_error(state.trigger, self._settings, state.capacity, decision.admitted + beyond)
        limits.count(state.connection, state.trigger.workflow_id, decision.admitted + len(decision.released))


class SequenceRule(Rule):
    """Admits work orders as far as there is capacity, and those with a number in the order of their sequence."""

    def __init__(self, settings: SequenceSettings | None) -> None:
        self._settings = settings
        self._names: dict[bytes, str] = {}
        self._sequences: dict[bytes, SequenceState] = {}

    def observe(self, chunk: Chunk, stream_ids: StreamIds, *, unwritten: bool) -> Observer:
        """Note the work orders with an input, each with the key and the number of its sequence."""
        note, names, settings = chunk.entries.append, self._names, self._settings
        value = settings.key.value if settings else None
        number = settings.number.found if settings else None

        def observe(id_: bytes, item: Item) -> None:
            if item.body is None:
                return
            key = value(item) if value else None
            if key is None or number is None:
                note(Entry(id_))
                return
            sequence = hash128(key)
            if sequence not in names:
                names[sequence] = key.decode(errors="replace")[:_MAX_NAME]
            note(Entry(id_, sequence, parse_number(number(item))))

        return observe

    def lock(self, state: AdmissionState) -> None:
        """Lock the sequences, and read them."""
        entries = state.remaining_entries()
        names = {entry.sequence: self._names[entry.sequence] for entry in entries if entry.sequence is not None}
        if self._settings is not None and names:
            self._sequences = sequence_store.lock(
                state.connection, state.trigger.id, names, self._settings.start, entries
            )

    def decide(self, state: AdmissionState) -> None:
        """Admit, park, or reject each work order that is no duplicate."""
        remaining = None if state.capacity is None else state.capacity.remaining
        state.decision = decide(state.remaining_entries(), self._sequences, remaining)
        state.rejections += state.decision.rejected

    def write(self, state: AdmissionState) -> None:
        """Write what is parked and released, and the high-water marks."""
        sequence_store.write(state.connection, state.trigger, state.decision, self._sequences)
