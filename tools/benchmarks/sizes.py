"""How much is measured: in full, or just enough to see that every benchmark works."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Sizes:
    """Numbers of messages, of rounds, and of seconds."""

    rows: int = 200_000
    """Rows of one raw COPY, and work orders of one `create_for`."""
    rounds: int = 5
    """How often the things that are compared take turns."""
    backlog: int = 1_000_000
    """Messages of the batch that the whole Spark application ingests, in 4 partitions."""
    backlog_rounds: int = 2
    formatted: int = 400_000
    """Messages of the batch in each format, in 4 partitions."""
    format_rounds: int = 3
    commands: int = 5
    """How often each command of the command line is started."""
    server_batches: int = 1_000
    """Batches of one message that one Spark Connect server ingests, after its warm-up."""
    server_warm_up: int = 30
    claim_finished: int = 10_000_000
    """Finished runs in the tables while others are claimed."""
    claim_waiting: int = 100_000
    claim_groups: int = 200
    """Groups of a hundred that are claimed, started and finished."""
    idle_triggers: int = 100
    idle_settle_seconds: float = 60.0
    """Time between the last trigger that began to wait and the measurement of a whole stack."""
    idle_stack_seconds: float = 180.0
    latency_messages: int = 8
    """Each waits until the task before has ended, its linger included: about a minute and a half."""
    steady_seconds: float = 120.0
    steady_busy: int = 2
    """Busy processes next to which a steady trigger is measured a second time."""
    trickle_triggers: int = 20
    """Triggers that get a message per second each."""
    trickle_seconds: float = 300.0
    cost_seconds: float = 300.0
    """Time for which what a trigger costs is measured, for each engine: several time slices."""
    drained: Mapping[int, int] = field(default_factory=lambda: {4_000: 120_000, 100_000: 500_000})
    """Messages that wait for a trigger in Airflow, by the most messages that one of its batches has."""
    drain_seconds: float = 60.0
    """Time after which a backlog that is not drained counts as far as it came."""
    million_rounds: int = 2
    search_rows: int = 10_000_000
    """Work orders among which some are sought."""
    search_rounds: int = 100
    """How often each kind of question is asked."""
    pages_rows: int = 10_000_000
    """Work orders of the installation whose pages are looked at."""
    pages_requests: int = 200
    """How often each kind of page is asked for."""
    pages_outbox: int = 600_000
    """Messages that wait in its outbox."""
    pages_batches: int = 1_080
    """Batches of each of its Kafka triggers in the last six hours."""
    pages_entries: int = 60_000
    """Entries of its large input, of 280 bytes each."""
    executed: int = 40_000
    """Runs of a function that does nothing."""
    outbox_messages: int = 500_000
    """Messages that wait in the outbox, and in the tables that it is held against."""
    outbox_backlog: int = 5_000_000
    """Messages that wait behind those that are sent, to see whether sending then costs more."""
    outbox_enqueued: int = 20_000
    outbox_singles: int = 100
    """Single messages whose way to a consumer is timed."""


FULL = Sizes()
QUICK = Sizes(
    rows=2_000,
    rounds=1,
    backlog=4_000,
    backlog_rounds=1,
    formatted=1_000,
    format_rounds=1,
    commands=1,
    server_batches=4,
    server_warm_up=2,
    claim_finished=2_000,
    claim_waiting=1_000,
    claim_groups=4,
    idle_triggers=5,
    idle_settle_seconds=1.0,
    idle_stack_seconds=3.0,
    latency_messages=1,
    steady_seconds=5.0,
    steady_busy=1,
    trickle_triggers=2,
    trickle_seconds=3.0,
    cost_seconds=10.0,
    drained={20: 100},
    drain_seconds=120.0,
    million_rounds=1,
    search_rows=3_000,
    search_rounds=3,
    pages_rows=3_000,
    pages_requests=3,
    pages_outbox=1_000,
    pages_batches=4,
    pages_entries=1_000,
    executed=300,
    outbox_messages=2_000,
    outbox_backlog=4_000,
    outbox_enqueued=200,
    outbox_singles=3,
)
