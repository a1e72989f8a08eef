"""The settings of a trigger's rules, read from its stored definition and from that of its workflow."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from workorders.core.selectors import Selectable, Selector

OnRepeat = Literal["reject", "ignore"]


@dataclass(frozen=True, slots=True)
class CallerKey:
    """A text of any length by which a caller names one event. In another scope the same text is another key."""

    scope: str
    text: str

    def value(self, _item: Selectable) -> bytes:
        """Return the key, in a form that no JSON value has."""
        return b"\0".join((b"caller", self.scope.encode(), self.text.encode("utf-8", "surrogatepass")))


@dataclass(frozen=True, slots=True)
class IdempotencySettings:
    """Of the events with one key, one becomes a work order with a run within the window."""

    key: Selector | CallerKey
    window_seconds: float | None
    """None for a key that never expires."""
    on_repeat: OnRepeat = "reject"

    @property
    def is_of_caller(self) -> bool:
        """Whether the key identifies the event itself, even if the event was rejected."""
        return isinstance(self.key, CallerKey)

    def ignores(self, position: int | None) -> bool:
        """Return whether a repeat with this position leaves no work order.

        A repeat with a position in its source is always kept, because a replay must find it.
        """
        return self.on_repeat == "ignore" and position is None


@dataclass(frozen=True, slots=True)
class SequenceSettings:
    """The events of one key are admitted by their numbers, without a gap."""

    key: Selector
    number: Selector
    start: int | None
    """The first number of a key; None if it is the first to arrive."""


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """How many work orders a workflow takes."""

    waiting: int | None
    """Maximum number of work orders that wait for a run."""
    per_day: int | None
    """Maximum number of work orders admitted per day (UTC)."""
    hard: bool
    """Whether the source must wait; beyond a soft limit work orders are rejected."""

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> "LimitSettings | None":
        """Return the limits of a stored definition; None if it has none."""
        waiting, per_day = stored.get("waiting"), stored.get("per_day")
        if waiting is None and per_day is None:
            return None
        return cls(waiting, per_day, stored.get("kind") == "hard")

    @property
    def kind(self) -> str:
        """The word for it in a workflow's file."""
        return "hard" if self.hard else "soft"


@dataclass(frozen=True, slots=True)
class RuleSettings:
    """The settings of all rules of one trigger; each is None where the definition has none."""

    idempotency: tuple[IdempotencySettings, ...] = ()
    sequence: SequenceSettings | None = None
    limits: LimitSettings | None = None

    @classmethod
    def read(
        cls,
        idempotency: Mapping[str, Any] | None,
        sequence: Mapping[str, Any] | None,
        limits: Mapping[str, Any] | None,
    ) -> "RuleSettings | None":
        """Return the rules of stored definitions; None if there is none, so that ingest costs nothing more."""
        rules = cls(
            () if idempotency is None else (_idempotency(idempotency),),
            None if sequence is None else _sequence(sequence),
            None if limits is None else LimitSettings.read(limits),
        )
        return None if rules == cls() else rules

    def with_caller_key(self, key: CallerKey, window_seconds: float | None) -> "RuleSettings":
        """Return the same rules for an event that its caller names by a key; a repeat of it is ignored."""
        return replace(self, idempotency=(IdempotencySettings(key, window_seconds, "ignore"), *self.idempotency))

    def beyond_soft_limits(self) -> "RuleSettings":
        """Return the same rules with a soft limit that only counts, for one work order that a person reruns."""
        if self.limits is None or self.limits.hard:
            return self
        return replace(self, limits=LimitSettings(None, None, hard=False))


def _idempotency(stored: Mapping[str, Any]) -> IdempotencySettings:
    return IdempotencySettings(
        Selector.parse(stored["key"]), float(stored["window"]), stored.get("on_repeat", "reject")
    )


def _sequence(stored: Mapping[str, Any]) -> SequenceSettings:
    start = stored["start"]
    return SequenceSettings(
        Selector.parse(stored["key"]), Selector.parse(stored["number"]), None if start == "first" else int(start)
    )
