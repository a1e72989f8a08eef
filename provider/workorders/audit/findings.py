"""What an audit reports."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

REPORT: Final = "Keep this output and the logs of that time, and report it: no sequence of events leads here."
"""What to do about a finding that only a mistake of this package, or a person at the tables, can cause."""
MAX_FINDINGS: Final = 1_000
"""More are counted and not listed, so that a report stays small."""


class Check(StrEnum):
    """What was compared."""

    LEDGER = "ledger"
    """The ledger with its ranges, decisions, and stored positions."""
    RANGES = "ranges"
    """Finished ranges with one another: they cover every offset once."""
    COUNTS = "counts"
    """The counts of a range, or of the ledger, with what is stored."""
    MESSAGES = "messages"
    """Messages that Kafka has with their work orders."""
    LOG = "log"
    """The ledger with the log in Kafka."""
    GROUP = "group"
    """The consumer group with the ledger."""
    PARTS = "parts"
    """Work orders with their inputs and rejections."""
    RUNS = "runs"
    """Runs with their work orders and workers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that must not be."""

    check: Check
    what: str
    """One sentence."""
    action: str
    """What to do, in sentences."""
    trigger: str | None = None
    workflow: str | None = None
    topic: str | None = None
    partition: int | None = None
    start: int | None = None
    """First offset; None if the finding is of no offsets."""
    end: int | None = None
    """End of the offsets, which is not one of them."""

    @property
    def place(self) -> str:
        """Return where it is: `orders: orders 0 [10, 20)`, or the workflow."""
        if self.topic is None:
            return self.trigger or self.workflow or "all workflows"
        offsets = "" if self.start is None else f" [{self.start}, {self.end})"
        return f"{self.trigger}: {self.topic} {self.partition}{offsets}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """What an audit checked and found."""

    trigger: str | None
    """The only trigger that was checked; None for all."""
    ended_at: datetime
    seconds: float
    partitions: int
    """Partitions that were checked to the end."""
    partitions_left: int
    """Partitions that were not, because the time was over or something failed."""
    ranges: int
    """Finished ranges whose work orders were counted."""
    messages: int
    """Messages that were read from Kafka and compared."""
    undecided: int
    """Of these, messages that differ for a reason that may be right, such as a trigger that was changed since."""
    findings: tuple[Finding, ...]
    """The first ones, at most `MAX_FINDINGS`."""
    findings_left: int
    """How many more there are."""
    problems: tuple[str, ...]
    """What could not be checked, and why."""

    @property
    def is_good(self) -> bool:
        """Whether everything that was looked at could be checked, and nothing is wrong."""
        return not (self.findings or self.problems)
