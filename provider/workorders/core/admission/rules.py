"""The shape of a rule: observe what is written, then decide, write, and clean up.

Each rule is one file here: its settings, locks, decision, writes, and reasons, with its SQL in `sql/`. The pipeline
calls each step for all rules before the next step, in the order of its list.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from workorders.core.admission.duplicates import RepeatOf
from workorders.core.items import Item
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger

StreamIds = Mapping[str | None, int | None]
Observer = Callable[[bytes, Item], None]
"""Notes a work order while its chunk is written."""


class AdmissionRejection(NamedTuple):
    """A work order that a rule rejects."""

    id: bytes
    code: str
    """A short kebab-case word to filter by, such as `duplicate`."""
    detail: str
    """One plain clause; it contains no value of the event."""
    original: bytes | None = None
    """The work order that this one repeats, if it is known."""


@dataclass(slots=True)
class Chunk:
    """Work orders written under one savepoint, and what the rules observed. A failed savepoint discards all of it."""

    ids: list[bytes]
    items: list[Item]
    notes: dict["Rule", list[Any]] = field(default_factory=dict)

    def __iter__(self) -> Iterator[tuple[bytes, Item]]:
        """Yield each id with its item."""
        return zip(self.ids, self.items, strict=True)


@dataclass(slots=True)
class AdmissionState:
    """What one call of `create_for` wrote, without the items, and what its rules decided."""

    connection: Connection
    trigger: Trigger
    by_person: bool = False
    """Whether a person reruns the work orders, so that limits only count them."""
    with_input: int = 0
    passed_over: set[bytes] = field(default_factory=set)
    """Work orders about which a rule has decided; the later rules pass over them."""
    capacity: int | None = None
    """How many work orders may be admitted; None for no limit."""
    admitted: int = 0
    """Work orders of this call that wait for a run."""
    released: int = 0
    """Work orders of earlier calls that wait for a run from now on."""
    rejections: list[AdmissionRejection] = field(default_factory=list)
    ignored: list[RepeatOf] = field(default_factory=list)
    """Work orders that must leave nothing but a count for the one that they repeat."""


class Rule:
    """A rule of a trigger during one call of `create_for`. Each step may have nothing to do."""

    reasons: ClassVar[tuple[str, ...]]

    def __init__(self) -> None:
        self.notes: list[Any] = []
        """What was noted of the chunks that will not be undone alone."""

    @classmethod
    def of(cls, trigger: Trigger) -> Iterable["Rule"]:
        """Return the rules of this kind that the trigger or its workflow defines."""
        raise NotImplementedError

    def observe(self, chunk: Chunk, stream_ids: StreamIds) -> Observer | None:
        """Return what notes the work orders of a chunk in it; None if the rule needs nothing of them."""

    def decide(self, state: AdmissionState) -> None:
        """Lock what the rule shares with other transactions, and decide by what it reads there."""

    def write(self, state: AdmissionState) -> None:
        """Write the decision."""

    def clean_up(self, state: AdmissionState) -> None:
        """Delete what is not needed any more. From here on the transaction waits for no other one."""
