"""The rules by which a trigger's inputs are let in, read from its stored definition and its workflow's."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from workorders.core.selectors import Selector


@dataclass(frozen=True, slots=True)
class IdempotencySettings:
    """Of the events with one key, one becomes a run within the window."""

    key: Selector
    window_seconds: float


@dataclass(frozen=True, slots=True)
class SequenceSettings:
    """The events of one key are let in by their numbers, without a gap."""

    key: Selector
    number: Selector
    start: int | None
    """The first number of a key; None when the first to arrive is it."""


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """How much may be asked of a workflow."""

    waiting: int | None
    """Most work orders that wait for a run."""
    per_day: int | None
    """Most work orders let in a day (UTC)."""
    hard: bool
    """Whether the source must wait; beyond a soft limit work orders are rejected."""

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> "LimitSettings | None":
        """Return the limits that a stored definition holds; None when there is none."""
        waiting, per_day = stored.get("waiting"), stored.get("per_day")
        if waiting is None and per_day is None:
            return None
        return cls(waiting, per_day, stored.get("kind") == "hard")

    @property
    def kind(self) -> str:
        """The word for it in a workflow's file."""
        return "hard" if self.hard else "soft"


@dataclass(frozen=True, slots=True)
class Rules:
    """All rules of one trigger; each is None where the definition has none."""

    idempotency: IdempotencySettings | None = None
    sequence: SequenceSettings | None = None
    limits: LimitSettings | None = None

    @classmethod
    def read(
        cls,
        idempotency: Mapping[str, Any] | None,
        sequence: Mapping[str, Any] | None,
        limits: Mapping[str, Any] | None,
    ) -> "Rules | None":
        """Return the rules that stored definitions hold; None when there is none, which costs ingest nothing."""
        rules = cls(
            None if idempotency is None else _idempotency(idempotency),
            None if sequence is None else _sequence(sequence),
            None if limits is None else LimitSettings.read(limits),
        )
        return None if rules == cls() else rules

    def beyond_soft_limits(self) -> "Rules":
        """Return the same rules with a soft limit that only counts: a person has asked for one work order alone."""
        if self.limits is None or self.limits.hard:
            return self
        return replace(self, limits=LimitSettings(None, None, hard=False))


def _idempotency(stored: Mapping[str, Any]) -> IdempotencySettings:
    return IdempotencySettings(Selector.parse(stored["key"]), float(stored["window"]))


def _sequence(stored: Mapping[str, Any]) -> SequenceSettings:
    start = stored["start"]
    return SequenceSettings(
        Selector.parse(stored["key"]), Selector.parse(stored["number"]), None if start == "first" else int(start)
    )
