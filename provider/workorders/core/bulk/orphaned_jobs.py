"""Bulk jobs that nobody works at: written down for later, waiting for room, or left by a process that died."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import psycopg

from workorders.core.bulk import jobs, runner
from workorders.core.bulk.jobs import Job, JobBusyError, JobEndedError
from workorders.core.exceptions import WorkOrdersError, one_line
from workorders.core.postgres.connection import Connection, is_outage
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.core.bulk", "sql/jobs.sql")

STARTUP_GRACE: Final = timedelta(seconds=10)
"""Whoever makes a job to work at it does so at once; until then it is not taken for one that was left."""


@dataclass(slots=True)
class ResumeResult:
    """What became of the jobs that were left."""

    jobs: list[Job] = field(default_factory=list)
    """As they stand now: finished, cancelled meanwhile, or waiting for room again."""
    failures: list[str] = field(default_factory=list)
    """A sentence for each job that could not go on; its row says the same. One that failed is a person's to resume."""


def find_orphaned(connection: Connection) -> list[int]:
    """Return the numbers of the jobs that nobody works at, the oldest first.

    Exports are not among them: their file is a path on the machine of who asked, so they wait for `jobs resume` there.
    """
    arguments = {"beginning": STARTUP_GRACE, "silence": jobs.HEARTBEAT_TIMEOUT}
    return [row[0] for row in connection.execute(_QUERIES["left_jobs"], arguments)]


def resume_orphaned(
    connection: Connection, *, progress: Callable[[Job], None] | None = None, step: int = runner.STEP
) -> ResumeResult:
    """Work through each job that was left, as far as it goes now.

    However many do so at once, each job has one worker: who comes second passes it over.

    Args:
        connection: without an open transaction; each step has its own.
        progress: called after each step.
        step: work orders of one step.

    Raises:
        psycopg.Error: the connection was lost; the jobs stay where they are, to be taken again.
    """
    with connection.transaction():
        found = find_orphaned(connection)
    worked = ResumeResult()
    for job_id in found:
        try:
            worked.jobs.append(runner.run_job(connection, job_id, step=step, progress=progress))
        except (JobBusyError, JobEndedError):
            continue
        except WorkOrdersError as error:
            worked.failures.append(f"Job {job_id} failed: {error}")
        except psycopg.Error as error:
            if connection.closed:
                raise
            # The younger jobs need not fail, or be in somebody's way, as well.
            became = "waits for the next run" if is_outage(error) else "failed"
            worked.failures.append(f"Job {job_id} {became}: {one_line(error)}")
    return worked
