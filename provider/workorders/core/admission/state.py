"""What the rules of a trigger share: the chunks that were written, and what was decided about them."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from workorders.core.admission.duplicates import IgnoredRepeat, InlineDuplicate
from workorders.core.admission.limits import Capacity
from workorders.core.admission.rejections import AdmissionRejection
from workorders.core.admission.sequence_order import Decision, Entry
from workorders.core.admission_rules import IdempotencySettings
from workorders.core.items import Item
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger

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
