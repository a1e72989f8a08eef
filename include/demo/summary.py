"""The figures at the end, each with its expected value."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from demo.comparison import Comparison
from demo.database import Batch, WorkOrder
from demo.producer import Sent
from demo.replay import Replay
from demo.topic import Place

REASONS: Mapping[str, str] = {
    "tombstone": "null-value",
    "cut short": "not-json",
    "empty value": "not-json",
    "array": "not-an-object",
    "number": "not-an-object",
    "NaN": "not-a-number",
    "Latin-1": "not-utf8",
    "NUL escape": "nul-character",
    "lone surrogate": "lone-surrogate",
    "huge number": "number-out-of-range",
    "nested too deep": "nested-too-deep",
}
"""The code of the rejection that each flaw of the stream must lead to, as the reference of reasons lists them."""

_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the summary."""

    name: str
    found: int
    expected: int
    remark: str = ""

    @property
    def off(self) -> bool:
        """Whether it is not what it must be."""
        return self.found != self.expected


@dataclass(frozen=True, slots=True)
class Offsets:
    """Where the topic ends for its readers, and how far two others have come, by partition."""

    last_stable: Mapping[int, int]
    ledger: Mapping[int, int]
    group: Mapping[int, int]

    @property
    def ledger_lag(self) -> int:
        """Number of offsets between the ledger and the end, in all partitions."""
        return self._lag(self.ledger)

    @property
    def group_lag(self) -> int:
        """Number of offsets between the consumer group and the end, in all partitions."""
        return self._lag(self.group)

    def _lag(self, position: Mapping[int, int]) -> int:
        return sum(abs(end - position.get(partition, 0)) for partition, end in self.last_stable.items())


@dataclass(frozen=True, slots=True)
class Found:
    """All that was learnt after the last message was in."""

    sent: Sent
    visible: int
    """Messages that a plain reader of committed messages gets."""
    stored: int
    """Messages in the log, aborted ones included."""
    orders: Sequence[WorkOrder]
    comparison: Comparison
    offsets: Offsets
    replay: Replay


def figures(found: Found) -> list[Figure]:
    """Return the figures that have only one right value."""
    sent, comparison, offsets = found.sent, found.comparison, found.offsets
    rejected = sum(order.state == "rejected" for order in found.orders)
    return [
        Figure("produced", found.visible, sent.committed, f"{sent.in_transaction:,} of them in a transaction"),
        Figure("aborted", found.stored - found.visible, sent.aborted, "in the log, and never visible"),
        Figure("created", len(found.orders), sent.committed, "work orders, rejected ones included"),
        Figure("rejected", rejected, sent.flaws.total()),
        *_by_reason(sent.flaws, found.orders),
        Figure("missing", len(comparison.missing), 0, _places(comparison.missing)),
        Figure("duplicates", len(comparison.duplicates), 0, _places(comparison.duplicates)),
        Figure("without a message", len(comparison.strangers), 0, _places(comparison.strangers)),
        Figure("altered", len(comparison.altered), 0, _places(comparison.altered)),
        Figure("lag of the ledger", offsets.ledger_lag, 0, "to the last stable offsets"),
        Figure("lag of the group", offsets.group_lag, 0, "to the last stable offsets"),
        Figure("replay added", found.replay.added, 0, found.replay.remark),
        Figure("replay changed", int(found.replay.changed), 0),
    ]


def table(lines: Sequence[Figure]) -> str:
    """Return the figures as people read them."""
    rows = [f"{'':24}{'found':>10}{'expected':>10}"]
    for line in lines:
        mark = "OFF" if line.off else ""
        rows.append(f"{line.name:24}{line.found:>10,}{line.expected:>10,} {mark:3}  {line.remark}".rstrip())
    return "\n".join(rows)


def pace(seconds: Sequence[float], batches: Sequence[Batch]) -> str:
    """Return how long it took, which has no right value."""
    lines = []
    if seconds:
        lines.append(f"seconds from produce to work order: median {median(seconds):.1f}, worst {max(seconds):.1f}")
    lines.append(f"batches: {len(batches)}, of {_list([f'{batch.work_orders:,}' for batch in batches])} work orders")
    return "\n".join(lines)


def _by_reason(flaws: Counter[str], orders: Sequence[WorkOrder]) -> list[Figure]:
    expected: Counter[str] = Counter()
    for flaw, count in flaws.items():
        expected[REASONS[flaw]] += count
    found = Counter(order.reason for order in orders if order.reason is not None)
    return [Figure(f"  {code}", found[code], expected[code]) for code in sorted(expected.keys() | found.keys())]


def _places(places: Sequence[Place]) -> str:
    shown = [f"partition {partition} offset {offset}" for partition, offset in places[:_EXAMPLES]]
    return ", ".join(shown) + (" ..." if len(places) > _EXAMPLES else "")


def _list(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
