"""Steps of bulk jobs: bounded in work orders, in bytes, and in what they hold in memory."""

import subprocess
import sys
from itertools import pairwise

import pytest

from local_stack.stack import LocalStack
from support.admission import register
from support.work_orders import REQUEST, rejected
from workorders.core.attribution import Attribution
from workorders.core.bulk import jobs, runner
from workorders.core.bulk.jobs import Job
from workorders.core.creation.work_orders import create_for
from workorders.core.history import work_orders
from workorders.core.history.filters import Filter
from workorders.core.items import Item, Rejection
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger

pytestmark = pytest.mark.integration

MIB = 1024 * 1024
VALUE = b'{"id":%d,"text":"' + b"x" * (2 * MIB) + b'"}'
"""Packs into some 24 KiB, so hundreds of them are one step."""
FEW, MANY = 3, 24
ROOM = 24 * MIB
"""Some copies of one value; all of them at once are more than 100 MiB."""


@pytest.fixture
def trigger(connection: Connection, name: str) -> Trigger:
    """A trigger whose rule keeps something of each input that is let in."""
    return register(connection, name, idempotency={"key": "body:/id", "window": "1h"})


def too_large(position: int) -> Item:
    return Item("s", position, REQUEST, None, Rejection("too-large", "x"), VALUE % position)


def made(connection: Connection, kind: str, wanted: Filter) -> Job:
    connection.commit()
    job = jobs.create_job(connection, kind, wanted, Attribution("ada", "a test"))
    connection.commit()
    return job


def peak_bytes(stack: LocalStack, job: Job) -> int:
    done = subprocess.run(
        [sys.executable, "-m", "support.peak_memory", str(job.id)],
        env=stack.environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout
    return int(done.stdout)


def test_a_rerun_of_large_rejected_values_holds_one_of_them_at_a_time(
    stack: LocalStack, connection: Connection, trigger: Trigger
) -> None:
    """`rerun --reason too-large` is what the documentation tells to do, of a thousand messages of 10 MiB too."""
    wanted = Filter(trigger=trigger.name, rejection="too-large")
    peaks = []
    for count in (FEW, MANY):
        create_for(connection, trigger, [too_large(place) for place in range(count, 2 * count)])
        peaks.append(peak_bytes(stack, made(connection, "rerun", wanted)))
    assert peaks[1] < peaks[0] + ROOM
    assert work_orders.count_by_state(connection, Filter(trigger=trigger.name)) == {"requeued": FEW + MANY}


def stepped(connection: Connection, job: Job) -> list[int]:
    """Work a job through, and return how many work orders each step came to."""
    seen = [0]

    def note(now: Job) -> None:
        seen.append(now.looked_at)

    assert runner.run_job(connection, job.id, progress=note).state == "finished"
    return [after - before for before, after in pairwise(seen)]


def test_a_step_ends_before_it_has_too_many_bytes_and_a_large_value_is_a_step_of_its_own(
    connection: Connection, trigger: Trigger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_orders, "STEP_BYTES", 2000)
    sizes = [700, 700, 700, 5000, 100, 100, 1700, 300]
    create_for(connection, trigger, [rejected("s", place, b"#" * size) for place, size in enumerate(sizes)])
    wanted = Filter(trigger=trigger.name)
    assert stepped(connection, made(connection, "rerun", wanted)) == [2, 1, 1, 3, 1]
    # Nothing is read of what is cancelled.
    assert stepped(connection, made(connection, "cancel", wanted)) == [8]
