"""Audits an installation: its runs, and partition by partition what is stored, also in comparison with Kafka."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final

import psycopg

from workorders.audit import stored
from workorders.audit.findings import MAX_FINDINGS, AuditReport, Check, Finding
from workorders.audit.messages import Block, assigned, choose_blocks
from workorders.audit.partitions import Ledger, check_counts, check_ledger, check_ranges
from workorders.core.exceptions import WorkOrdersError, one_line
from workorders.core.postgres.connection import Connection
from workorders.kafka.client.settings import SettingsOf
from workorders.kafka.ledger.positions import PartitionStatus
from workorders.kafka.partitions import PartitionOffsets, PartitionState
from workorders.kafka.status import KafkaAnswer, absence, ask_kafka

if TYPE_CHECKING:
    from workorders.audit.rereading import Rereading

SAMPLE: Final = 200
"""Messages of a partition that are read again, unless another number is asked for."""
MAX_SECONDS: Final = 60
"""Time after which nothing more is begun, unless another one is asked for."""


@dataclass(frozen=True, slots=True)
class _Task:
    """A partition to check: what the ledger and Kafka tell about it."""

    row: PartitionStatus
    log: PartitionOffsets | None
    """None if Kafka does not have the partition, or did not answer."""
    answer: KafkaAnswer
    """About its trigger."""
    group: str

    @property
    def place(self) -> dict[str, Any]:
        return {"trigger": self.row.trigger, "topic": self.row.topic, "partition": self.row.partition}

    @property
    def name(self) -> str:
        return f"{self.row.trigger}: {self.row.topic} {self.row.partition}"


class Audit:
    """One audit, by a connection without an open transaction; nothing is written.

    After `max_seconds` nothing more is begun; one statement lasts at most a minute. Chance decides the order of the
    partitions, and which messages of each, as many as the `sample`, are read again.
    """

    def __init__(
        self,
        connection: Connection,
        kafka_settings: SettingsOf,
        registry_settings: SettingsOf,
        *,
        sample: int = SAMPLE,
        max_seconds: float = MAX_SECONDS,
    ) -> None:
        self._connection = connection
        self._settings = (kafka_settings, registry_settings)
        self._sample = sample
        self._random = Random()  # noqa: S311 - a sample is no secret
        self._begun = time.monotonic()
        self._deadline = self._begun + max_seconds
        self._readers: dict[str, Rereading] = {}
        self._findings: list[Finding] = []
        self._problems: list[str] = []
        self._found = self._partitions = self._ranges = 0

    def run(self, trigger: str | None, progress: Callable[[int, int], None]) -> AuditReport:
        """Check everything, or one Kafka trigger; `progress` gets the number of partitions that are done, and of all.

        Raises:
            UnknownNameError: no trigger that reads Kafka has that name.
            psycopg.Error: the database failed.
        """
        tasks = self._tasks(trigger)
        self._random.shuffle(tasks)
        if trigger is None:
            self._try("runs", lambda: self._add(stored.check_runs(self._connection)))
            self._try("inputs", lambda: self._add(stored.check_parts(self._connection, self._random)))
        for number, task in enumerate(tasks):
            progress(number, len(tasks))
            self._partitions += not self._is_over and self._try(task.name, partial(self._check, task))
        progress(len(tasks), len(tasks))
        return AuditReport(
            trigger=trigger,
            ended_at=datetime.now(UTC),
            seconds=round(time.monotonic() - self._begun, 1),
            partitions=self._partitions,
            partitions_left=len(tasks) - self._partitions,
            ranges=self._ranges,
            messages=sum(reader.messages for reader in self._readers.values()),
            undecided=sum(reader.undecided for reader in self._readers.values()),
            findings=tuple(self._findings),
            findings_left=self._found - len(self._findings),
            problems=tuple(dict.fromkeys(self._problems)),
        )

    @property
    def _is_over(self) -> bool:
        return time.monotonic() > self._deadline

    def _add(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            self._found += 1
            if len(self._findings) < MAX_FINDINGS:
                self._findings.append(finding)

    def _try(self, what: str, check: Callable[[], object]) -> bool:
        """Check one thing, and return whether that is done; its failure is reported and stops nothing else."""
        try:
            check()
        except psycopg.errors.QueryCanceled:
            self._problems.append(f"{what}: a question to Postgres took more than a minute; the rest was not checked.")
            return False
        except psycopg.Error:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a client of Kafka raises concerns this partition only
            kind = "" if isinstance(error, WorkOrdersError) else f"{type(error).__name__}: "
            self._problems.append(f"{what}: the rest was not checked: {kind}{one_line(error)}")
            return False
        return not self._is_over

    def _tasks(self, trigger: str | None) -> list[_Task]:
        tasks: list[_Task] = []
        for found, rows, answer in ask_kafka(self._connection, self._settings[0], trigger):
            if rows and answer.problem is not None:
                self._problems.append(f"{found.name}: {answer.problem}")
            logs = {log.partition.topic_partition: log for log in answer.logs or ()}
            tasks += [_Task(row, logs.get((row.topic, row.partition)), answer, found.consumer_group) for row in rows]
        return tasks

    def _check(self, task: _Task) -> None:
        with stored.snapshot(self._connection):
            ledger = stored.ledger(self._connection, task.place)
            if ledger is None:
                return
            blocks = self._blocks(task, ledger)
            self._add(check_ledger(ledger))
            self._add(check_ranges(ledger, assigned(stored.ranges(self._connection, ledger), blocks)))
        self._compare_with_kafka(task, ledger)
        self._count(ledger)
        for block in blocks:
            if block.ranges and not self._is_over:
                self._add(self._reader(ledger.trigger).check(ledger, block))

    def _blocks(self, task: _Task, ledger: Ledger) -> list[Block]:
        log = task.log
        if log is None or log.partition != ledger.log:
            return []
        start, end = max(ledger.start_offset, log.log_start), min(ledger.next_offset, log.last_stable)
        return choose_blocks(start, max(start, end), self._sample, self._random)

    def _count(self, ledger: Ledger) -> None:
        """Compare the counts of the ranges of all logs of a partition with what is stored."""
        followed = (ledger.topic_id, ledger.generation)
        earlier = [log for log in stored.logs(self._connection, ledger) if log != followed]
        for log in [followed, *earlier]:
            for counts in stored.counts(self._connection, ledger, *log):
                # The decisions about an earlier log are not read.
                self._add(check_counts(ledger, counts if log == followed else replace(counts, is_read_twice=True)))
                self._ranges += 1
                if self._is_over:
                    return

    def _compare_with_kafka(self, task: _Task, ledger: Ledger) -> None:
        row, log, now = task.row, task.log, ledger.next_offset
        state = log.mismatch(row.topic_id, row.next_offset, row.stored_end) if log else absence(row, task.answer)
        # The ledger may have moved since Kafka was asked.
        if state is PartitionState.MESSAGES_DELETED and log is not None and log.log_start <= now:
            state = None
        if state is not None and state.is_contradiction:
            action = f"`workorders status {row.trigger}` shows more, and `workorders resolve` decides how it continues."
            self._add([ledger.found(Check.LOG, f"The ledger and Kafka contradict each other: {state}.", action)])
        committed = task.answer.committed.get(log.partition) if log else None
        if log is not None and log.partition == ledger.log and committed is not None and committed > now:
            what = f"The consumer group {task.group} is at {committed}, and the ledger at {now}."
            action = "Find the program that commits to this group. The next batch commits the ledger's offset again."
            self._add([ledger.found(Check.GROUP, what, action, (now, committed))])

    def _reader(self, trigger: str) -> "Rereading":
        # The client is an extra: what needs only the database works without it.
        from workorders.audit.rereading import Rereading  # noqa: PLC0415

        if trigger not in self._readers:
            self._readers[trigger] = Rereading(self._connection, trigger, *self._settings)
        return self._readers[trigger]
