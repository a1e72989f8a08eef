"""What the metrics tell of each Kafka trigger, and what is wrong, for the pages and `workorders status --check`."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Any, Final

from workorders.core.bulk.jobs import Job
from workorders.core.exceptions import one_line
from workorders.core.history.workload import MAX_COUNTED, Workload
from workorders.core.metrics import Sample
from workorders.core.postgres.connection import Connection
from workorders.core.runs.claiming import list_claimable
from workorders.outbox.admin import Hold, ShardStatus

OLDEST_AGE: Final = "workorders.ingest.oldest_age"
NO_PROGRESS_AGE: Final = "workorders.ingest.no_progress_age"
POLL_AGE: Final = "workorders.ingest.poll_age"
STALLED_PARTITIONS: Final = "workorders.ingest.stalled"
TRIGGER_FIGURES: Final = frozenset({OLDEST_AGE, NO_PROGRESS_AGE, POLL_AGE, STALLED_PARTITIONS})
STALLED: Final = "stalled"
NOT_RUNNING: Final = "not running"
NOT_POLLING: Final = "not polling"
STUCK: Final = "stuck"
MAX_POLL_AGE_SECONDS: Final = 300.0
"""A listener looks every ten seconds. Between two of its runs, a scheduler may take a while."""
MAX_NO_PROGRESS_SECONDS: Final = 900.0
"""A batch of a slow Spark takes some minutes."""
MAX_IDLE: Final = timedelta(minutes=5)
"""A scheduler and a worker that start need less."""


@dataclass(frozen=True, slots=True)
class TriggerHealth:
    """The figures of a trigger, of the worst of its partitions."""

    oldest_age_seconds: float | None
    """Of its oldest message without a work order; None if the listener does not look."""
    poll_age_seconds: float | None
    """None if the listener has never looked."""
    no_progress_seconds: float
    is_stalled: bool


def trigger_health(samples: Iterable[Sample]) -> dict[str, TriggerHealth]:
    """Return the health of each trigger that has a listener, by name."""
    figures: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for sample in samples:
        trigger = dict(sample.labels).get("trigger")
        if trigger is not None and sample.metric.name in TRIGGER_FIGURES:
            figures[trigger][sample.metric.name].append(sample.value)
    return {
        trigger: TriggerHealth(
            oldest_age_seconds=max(found[OLDEST_AGE], default=None),
            poll_age_seconds=min(found[POLL_AGE], default=None),
            no_progress_seconds=max(found[NO_PROGRESS_AGE], default=0.0),
            is_stalled=any(found[STALLED_PARTITIONS]),
        )
        for trigger, found in figures.items()
    }


def oldest_ages(samples: Iterable[Sample]) -> Mapping[str, float]:
    """Return the maximum age in seconds of the oldest message without a work order, by trigger; 0 if none waits.

    A trigger whose listener does not look is missing.
    """
    found = trigger_health(samples).items()
    return {trigger: health.oldest_age_seconds for trigger, health in found if health.oldest_age_seconds is not None}


class Subject(StrEnum):
    """What a problem is about."""

    TRIGGER = "trigger"
    WORKFLOW = "workflow"
    SHARD = "shard"
    HOLD = "hold"
    JOB = "job"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that does not continue without a person, or that a person should know."""

    about: Subject
    key: str
    """Name of the trigger or workflow, or number of the shard, the hold, or the job."""
    subject: str
    """What it is about in words, such as a partition."""
    state: str
    sentence: str
    """Why, in the words of the error."""
    since: datetime | None = None
    next_try: datetime | None = None

    def __str__(self) -> str:
        """Return it as one line."""
        return f"{self.subject} is {self.state}: {self.sentence}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known."""

    samples: Sequence[Sample] = ()
    """The metrics, of the triggers in question."""
    triggers: Sequence[Any] = ()
    """`TriggerStatus` of kafka.status, which monitoring does not know."""
    paused: Collection[str] = ()
    """Triggers whose listener is known to be paused or gone."""
    idle: Sequence[Workload] = ()
    """Workflows with work orders that are due, and without a run."""
    shards: Sequence[ShardStatus] = ()
    holds: Sequence[Hold] = ()
    jobs: Sequence[Job] = ()


def find_problems(facts: Facts) -> list[Problem]:
    """Return everything that is wrong: triggers, workflows, the outbox, and bulk jobs, in this order."""
    healths = trigger_health(facts.samples)
    known = {trigger.name: trigger for trigger in facts.triggers}
    return [
        *(
            problem
            for name in sorted(healths.keys() | known.keys())
            for problem in _of_trigger(name, known.get(name), healths.get(name), facts)
        ),
        *(_of_workflow(idle) for idle in facts.idle),
        *(_of_shard(shard) for shard in facts.shards if shard.last_error),
        *(_of_hold(hold) for hold in facts.holds),
        *(_of_job(job) for job in facts.jobs if job.state == "failed"),
    ]


def find_idle(connection: Connection, workloads: Sequence[Workload], now: datetime) -> list[Workload]:
    """Return those of the workflows with a due work order older than `MAX_IDLE` and no run in progress.

    A work order whose retry is not due yet makes no workflow idle.
    """
    silent = {
        found.workflow: found
        for found in workloads
        if not found.running and found.oldest_waiting_at is not None and now - found.oldest_waiting_at > MAX_IDLE
    }
    if not silent:
        return []
    return [silent[found.workflow] for found in list_claimable(connection, silent)]


def _of_trigger(name: str, trigger: Any | None, health: TriggerHealth | None, facts: Facts) -> Iterator[Problem]:
    about = partial(Problem, Subject.TRIGGER, name, name)
    if trigger is not None:
        yield from _of_partitions(trigger)
    if name in facts.paused:
        lag = sum(row.lag or 0 for row in trigger.partitions) if trigger is not None else 0
        if lag:
            yield about("paused", f"The Dag of its listener is paused or gone, and {lag:,} offsets wait.")
    elif health is None or health.is_stalled:
        return
    elif (age := health.poll_age_seconds) is None or age > MAX_POLL_AGE_SECONDS:
        looked = "never looked" if age is None else f"not looked for {age:.0f} s"
        yield about(NOT_POLLING, f"Its listener has {looked}. Unpause its Dag, and check that a triggerer runs.")
    elif health.no_progress_seconds > MAX_NO_PROGRESS_SECONDS:
        since = f"more than {MAX_NO_PROGRESS_SECONDS:.0f} s"
        yield about(STUCK, f"Messages wait, and none has become a work order for {since}. See its ingest Dag.")


def _of_partitions(trigger: Any) -> Iterator[Problem]:
    if trigger.problem:
        yield Problem(Subject.TRIGGER, trigger.name, trigger.name, "unknown", one_line(trigger.problem))
    for row in trigger.partitions:
        if row.needs_attention:
            subject = f"{trigger.name}: {row.topic} {row.partition}"
            sentence = one_line(row.last_error) if row.last_error else "The next batch reports the full error."
            yield Problem(Subject.TRIGGER, trigger.name, subject, row.status, sentence, row.since, row.next_attempt_at)


def _of_workflow(idle: Workload) -> Problem:
    waiting = f"more than {MAX_COUNTED:,}" if idle.waiting > MAX_COUNTED else f"{idle.waiting:,}"
    sentence = (
        f"Work orders wait ({waiting}), and none runs. The Dag of its runs is paused, is missing, or its task fails."
    )
    name = idle.workflow
    return Problem(Subject.WORKFLOW, name, f"Workflow {name}", NOT_RUNNING, sentence, idle.oldest_waiting_at)


def _of_shard(shard: ShardStatus) -> Problem:
    number = str(shard.shard)
    return Problem(Subject.SHARD, number, f"Outbox shard {number}", "failing", one_line(shard.last_error or ""))


def _of_hold(hold: Hold) -> Problem:
    subject, sentence = f"Outbox topic {hold.topic}", one_line(hold.reason)
    return Problem(Subject.HOLD, str(hold.id), subject, "held", sentence, hold.since, hold.next_try_at)


def _of_job(job: Job) -> Problem:
    subject = f"Bulk operation {job.id} ({job.kind})"
    return Problem(Subject.JOB, str(job.id), subject, job.state, one_line(job.error or ""), job.finished_at)
