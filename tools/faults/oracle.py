"""Checks what became of what was sent, by arithmetic in Postgres: no log is looked at."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from faults import contents
from faults.producer import read_journal
from support.sampler import PartitionSnapshot
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("faults", "oracle.sql")
_MOST_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Verdict:
    """The counts; all but `messages` are 0 when the promises were kept."""

    messages: int
    """Messages that must have a work order."""
    lost: int
    duplicated: int
    disordered: int
    strangers: int
    """Work orders of aborted messages, or of none at all."""
    wrong: int
    """Work orders with another content or another reason of rejection than expected."""
    contradictions: tuple[str, ...] = ()
    """Instants or ends at which group, ledger and work orders did not agree, in words."""

    @property
    def kept(self) -> bool:
        """Whether every promise was kept."""
        return not (
            self.lost or self.duplicated or self.disordered or self.strangers or self.wrong or self.contradictions
        )

    def __str__(self) -> str:
        shown = "; ".join(self.contradictions[:_MOST_SHOWN])
        return (
            f"{self.messages} messages: {self.lost} lost, {self.duplicated} duplicated, {self.disordered} out of "
            f"order, {self.strangers} of aborted or unknown messages, {self.wrong} with another content, "
            f"{len(self.contradictions)} contradictions{': ' if shown else ''}{shown}"
        )


@dataclass(frozen=True, slots=True)
class Ends:
    """The offsets of a trigger's partitions at the end."""

    log: Mapping[int, int]
    """Last stable offsets."""
    group: Mapping[int, int]
    """Committed offsets."""


@dataclass(frozen=True, slots=True)
class Gone:
    """Offsets `[start, end)` of a partition that Kafka lost before they were read."""

    partition: int
    start: int
    end: int


def remember(url: str, trigger: str, journals: Iterable[Path], *, log: int = 0) -> None:
    """Put what was sent into a table next to the work orders.

    Args:
        url: the database.
        trigger: its name.
        journals: what producers wrote.
        log: which log of their partitions they were sent to: 0, and one more for each that a decision let follow.

    Raises:
        AssertionError: a producer did not end well.
    """
    with psycopg.connect(url) as connection:
        connection.execute(_QUERIES["schema"])
        with connection.cursor() as cursor, cursor.copy("COPY faults.sent FROM STDIN") as copy:
            for journal in journals:
                for producer, sequence, partition, offset in read_journal(journal.read_text(encoding="ascii")):
                    value = contents.value(producer, sequence)
                    copy.write_row(
                        (trigger, producer, sequence, partition, offset, contents.kind(sequence), value, log)
                    )


def check(
    url: str,
    trigger: str,
    *,
    snapshots: Iterable[PartitionSnapshot],
    sampled: Sequence[str],
    ends: Ends,
    stalled: Collection[int],
    gone: Collection[Gone] = (),
) -> Verdict:
    """Count what was lost, doubled and so on.

    Args:
        url: the database.
        trigger: its name.
        snapshots: what the sampler saw.
        sampled: the contradictions that the sampler saw.
        ends: Kafka's offsets, now that all is done.
        stalled: partitions that must be stalled, because Kafka has lost something of them.
        gone: what Kafka lost before it was read, and an operator has left behind.

    Raises:
        AssertionError: the producer itself left a hole, or the sampler never saw anything, so that there is no verdict.
    """
    arguments = {
        "trigger": trigger,
        "stalled": list(stalled),
        "gone_partitions": [lost.partition for lost in gone],
        "gone_starts": [lost.start for lost in gone],
        "gone_ends": [lost.end for lost in gone],
    }
    with psycopg.connect(url) as connection:
        for table in ("logs", "found", "due"):
            connection.execute(_QUERIES[table], arguments)

        def count(query: str) -> int:
            row = connection.execute(_QUERIES[query], arguments).fetchone()
            assert row is not None
            return int(row[0])

        assert count("unsent") == 0, "the journal of the producer has a hole"
        visible = _by_log(connection.execute(_QUERIES["visible_offsets"], arguments))
        logs: dict[int, int] = dict(connection.execute(_QUERIES["followed"], arguments).fetchall())
        ledger = connection.execute(_QUERIES["ledger"], arguments).fetchall()
        wrong_ends = [*_miscounted(snapshots, visible, logs), *_wrong_ends(ledger, ends, stalled)]
        return Verdict(
            messages=count("messages"),
            lost=count("lost"),
            duplicated=count("duplicated"),
            disordered=count("disordered"),
            strangers=count("strangers"),
            wrong=count("wrong"),
            contradictions=(*sampled, *wrong_ends),
        )


def _by_log(rows: Iterable[Sequence[Any]]) -> dict[tuple[int, int], list[int]]:
    offsets: dict[tuple[int, int], list[int]] = defaultdict(list)
    for partition, log, offset in rows:
        offsets[partition, log].append(offset)
    return offsets


def _miscounted(
    snapshots: Iterable[PartitionSnapshot], visible: Mapping[tuple[int, int], list[int]], logs: Mapping[int, int]
) -> list[str]:
    """Return the instants at which fewer or more work orders lay before the ledger than messages had been sent there.

    The sampler could not know that yet, for a message is there before its producer hears of it.
    """
    return [
        f"partition {seen.partition}: {seen.behind} work orders before {seen.next_offset}, {sent} messages"
        for seen in snapshots
        for sent in [bisect_left(visible.get((seen.partition, logs.get(seen.stream_id, 0)), []), seen.next_offset)]
        if seen.behind != sent
    ]


def _wrong_ends(ledger: Iterable[Sequence[Any]], ends: Ends, stalled: Collection[int]) -> list[str]:
    def is_committed(partition: int, next_offset: int) -> bool:
        # A batch with a stalled partition does not get as far as its commit.
        return bool(stalled) or ends.group.get(partition) == next_offset

    wrong: list[str] = []
    for partition, next_offset, status in ledger:
        if partition in stalled:
            if status != "stalled":
                wrong.append(f"partition {partition} should be stalled and is {status}")
        elif next_offset != ends.log.get(partition) or status != "active" or not is_committed(partition, next_offset):
            wrong.append(
                f"partition {partition} ends with ledger {next_offset} ({status}), log {ends.log.get(partition)} and "
                f"group {ends.group.get(partition)}"
            )
    return wrong
