"""What needs a person, from all that the overview shows: a pure decision."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from workorders.core.bulk.jobs import Job
from workorders.core.exceptions import one_line
from workorders.kafka.status.partition_status import TRIGGER_TYPE, PartitionRow
from workorders.outbox.admin import Hold, ShardStatus
from workorders.pages.kafka_state import PAUSED, STALLED, UNDECIDED

if TYPE_CHECKING:
    from workorders.pages.overview import KafkaLine

_MAX_SHOWN: Final = 50
_ALWAYS: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """One thing that does not continue without a person, or that a person should know."""

    subject: str
    """What it is about, such as a partition."""
    state: str
    sentence: str
    """Why, in the words of the error."""
    since: datetime | None = None
    next_try: datetime | None = None
    page: tuple[object, ...]
    """Parts of the path of the page that helps."""
    button: str
    """What the person does there."""


def of(
    kafka: Iterable["KafkaLine"], shards: Iterable[ShardStatus], holds: Iterable[Hold], jobs: Iterable[Job]
) -> Sequence[Need]:
    """Return what needs a person, what has lasted longest first."""
    found = [
        *(need for line in kafka for need in _of_trigger(line)),
        *map(_of_shard, (shard for shard in shards if shard.last_error)),
        *map(_of_hold, holds),
        *map(_of_job, (job for job in jobs if job.state == "failed")),
    ]
    return sorted(found, key=lambda need: need.since or _ALWAYS)[:_MAX_SHOWN]


def _of_trigger(line: "KafkaLine") -> Iterator[Need]:
    name = line.status.name
    for row in line.status.partitions:
        if row.status == STALLED or row.status in UNDECIDED:
            yield _of_partition(name, row)
    if line.word == PAUSED and line.lag:
        yield Need(
            subject=name,
            state=PAUSED,
            sentence=f"The listener is paused, and {line.lag:,} offsets wait in Kafka.",
            page=(TRIGGER_TYPE, name),
            button="Look at the trigger",
        )


def _of_partition(trigger: str, row: PartitionRow) -> Need:
    error = one_line(row.last_error) if row.last_error else "The next batch reports the full error."
    return Need(
        subject=f"{trigger}: {row.topic} {row.partition}",
        state=row.status,
        sentence=error,
        since=row.since,
        next_try=row.next_attempt_at,
        page=(TRIGGER_TYPE, trigger),
        button="See why" if row.status == STALLED else "Decide",
    )


def _of_shard(shard: ShardStatus) -> Need:
    return Need(
        subject=f"Outbox shard {shard.shard}",
        state="error",
        sentence=one_line(shard.last_error or ""),
        page=("outbox",),
        button="Look at the outbox",
    )


def _of_hold(hold: Hold) -> Need:
    return Need(
        subject=f"Outbox topic {hold.topic}",
        state="held",
        sentence=one_line(hold.reason),
        since=hold.since,
        next_try=hold.next_try_at,
        page=("outbox",),
        button="Release or purge",
    )


def _of_job(job: Job) -> Need:
    return Need(
        subject=f"Bulk job {job.id} ({job.kind})",
        state=job.state,
        sentence=one_line(job.error or ""),
        since=job.finished_at,
        page=("jobs", job.id),
        button="See the job",
    )
