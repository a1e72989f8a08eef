"""Lets written work orders in, parks or refuses them, by the rules of their trigger, in the transaction of the call.

Everything is written first, by the same fast way as without rules, but for an event that repeats one of its own chunk:
that is written as rejected. It is judged once, at the end of the call: set-based, under locks that are held for a
moment and taken in one order by everybody (the workflow's count, then idempotency keys, then sequences, each in their
own order). To lock chunk by chunk would let two transactions wait for one another. What is kept meanwhile in memory is
some hundred bytes a work order.
"""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from workorders.core.admission import idempotency, limits, rejections, sequence_store
from workorders.core.admission.rejections import Repeat
from workorders.core.admission.sequence_order import LARGEST_NUMBER, RUN_LIMIT, SMALLEST_NUMBER, Entry, Verdict, decide
from workorders.core.admission_rules import Rules, SequenceRule
from workorders.core.items import Item
from workorders.core.postgres import binary_rows
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger

_KEY_BYTES: Final = 16
_LONGEST_NAME: Final = 200
_LONGEST_DIGITS: Final = 20


class Settled(NamedTuple):
    """How many work orders with an input were turned away."""

    rejected: int
    """Written as accepted before."""
    sifted: int
    """Written as rejected from the start."""


class Admission:
    """The rules of one trigger, applied to what one call of `create_for` writes."""

    def __init__(self, connection: Connection, trigger: Trigger, rules: Rules) -> None:
        self._connection = connection
        self._trigger = trigger
        self._rules = rules
        self._keyed: list[bytes] = []
        self._entries: list[Entry] = []
        self._names: dict[bytes, str] = {}
        self._repeats: list[Repeat] = []
        self._new_keyed: list[bytes] = []
        self._new_entries: list[Entry] = []
        self._new_repeats: list[Repeat] = []

    def watch(
        self, written: Iterable[tuple[bytes, Item]], stream_ids: dict[str | None, int | None], *, sift: bool = False
    ) -> Iterator[tuple[bytes, Item]]:
        """Pass work orders on, in the order of their ids, and note those with an input until `keep` is called.

        Whoever copies them into a table while they pass has Postgres at work meanwhile, so noting costs little time.

        Args:
            written: a chunk of work orders.
            stream_ids: of all streams among them.
            sift: none is written yet, so what repeats another one of the chunk passes as rejected already. To write it
                first and reject it afterwards costs several times as much.
        """
        self._new_keyed, self._new_entries, self._new_repeats = [], [], []
        return self._noted(written, stream_ids, sift=sift)

    def note(self, written: Iterable[tuple[bytes, Item]], stream_ids: dict[str | None, int | None]) -> None:
        """Note work orders that are written already, in the order of their ids."""
        for _ in self.watch(written, stream_ids):
            pass
        self.keep()

    def keep(self) -> None:
        """Keep what was noted last: it is written, and not taken back."""
        self._keyed += self._new_keyed
        self._entries += self._new_entries
        self._repeats += self._new_repeats

    def _noted(
        self, written: Iterable[tuple[bytes, Item]], stream_ids: dict[str | None, int | None], *, sift: bool
    ) -> Iterator[tuple[bytes, Item]]:
        idempotency_, sequence = self._rules.idempotency, self._rules.sequence
        value = None if idempotency_ is None else idempotency_.key.value
        note, enter = self._new_keyed.append, self._new_entries.append
        plain = sequence is None and self._rules.limits is not None
        keyed = binary_rows.keyed
        seen: dict[bytes, bytes] = {}
        for pair in written:
            id_, item = pair
            if item.body is not None:
                if value is not None and (found := value(item)) is not None:
                    key = digest(found)
                    if sift and (first := seen.setdefault(key, id_)) is not id_:
                        self._new_repeats.append(Repeat(id_, first))
                        yield id_, rejections.repeated(item, first)
                        continue
                    note(keyed(key, id_, item.position, stream_ids[item.stream]))
                if sequence is not None:
                    enter(self._numbered(id_, item, sequence))
                elif plain:
                    enter(Entry(id_))
            yield pair

    def settle(self) -> Settled:
        """Judge what was noted.

        Raises:
            HardLimitError: the workflow takes less than came; the caller must roll back.
        """
        room = None
        if self._rules.limits is not None and self._entries:
            workflow_id = self._trigger.workflow_id
            room = limits.lock(self._connection, workflow_id, self._rules.limits, own=len(self._entries))
        refused = []
        if self._rules.idempotency is not None and self._keyed:
            window = self._rules.idempotency.window_seconds
            refused = idempotency.take(self._connection, self._trigger.id, window, self._keyed)
            holders = {part.id: part.original for part in refused if part.original is not None}
            rejections.link(self._connection, self._repeats, holders)
        if self._entries:
            verdict = self._judge({part.id for part in refused}, room)
            self._give_keys_back(verdict)
            refused += verdict.turned_away
        rejections.reject(self._connection, refused)
        if self._keyed:
            # Last of all: from here on this transaction waits for nobody, so the order of these locks is free.
            idempotency.expire_beside(self._connection, len(self._keyed))
        return Settled(len(refused), len(self._repeats))

    def _judge(self, repeated: set[bytes], room: limits.Room | None) -> Verdict:
        entries = [entry for entry in self._entries if entry.id not in repeated]
        standings = {}
        names = {entry.sequence: self._names[entry.sequence] for entry in entries if entry.sequence is not None}
        if self._rules.sequence is not None and names:
            start = self._rules.sequence.start
            standings = sequence_store.lock(self._connection, self._trigger.id, names, start, entries)
        verdict = decide(entries, standings, None if room is None else room.least)
        if room is not None and self._rules.limits is not None:
            beyond = sum(part.code == RUN_LIMIT for part in verdict.turned_away)
            if beyond and self._rules.limits.hard:
                raise limits.reached(self._trigger, self._rules.limits, room, verdict.admitted + beyond)
            limits.count(self._connection, self._trigger.workflow_id, verdict.admitted + len(verdict.released))
        sequence_store.write(self._connection, self._trigger, verdict, standings)
        return verdict

    def _give_keys_back(self, verdict: Verdict) -> None:
        """Free the keys of what was turned away for another reason, so that it may come again."""
        ids = [part.id for part in verdict.turned_away]
        if ids and self._keyed:
            idempotency.give_back(self._connection, self._trigger.id, ids, self._keyed)

    def _numbered(self, id_: bytes, item: Item, rule: SequenceRule) -> Entry:
        key = rule.key.value(item)
        if key is None:
            return Entry(id_)
        sequence = digest(key)
        if sequence not in self._names:
            self._names[sequence] = key.decode(errors="replace")[:_LONGEST_NAME]
        return Entry(id_, sequence, whole_number(rule.number.found(item)))


def digest(value: bytes) -> bytes:
    """Return what a key's value is known by: no event's data, and as long as a UUID."""
    return blake2b(value, digest_size=_KEY_BYTES).digest()


def whole_number(found: Any) -> int | None:
    """Return a number of a sequence: a whole number of 64 bits, or its digits as text, as headers have it."""
    if isinstance(found, str):
        digits = found.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) < _LONGEST_DIGITS):
            return None
        found = int(found)
    if isinstance(found, bool) or not isinstance(found, int):
        return None
    return found if SMALLEST_NUMBER <= found <= LARGEST_NUMBER else None
