"""Runs bulk jobs that were requested on a page, in threads of the API server.

A person watches the progress, so a job does not wait for the next run of the maintenance Dag. If the server ends
meanwhile, that Dag continues the job, as it does with every job whose process died; and it runs those for which no
thread is free.
"""

import logging
from threading import BoundedSemaphore, Thread
from typing import Final

import psycopg

from workorders.core.bulk import runner
from workorders.core.bulk.jobs import JobBusyError, JobEndedError
from workorders.core.exceptions import WorkOrdersError, one_line
from workorders.pages.site import Site

_LOG = logging.getLogger(__name__)

_FREE: Final = BoundedSemaphore(2)
"""Threads; each has a job and a connection."""


def start(site: Site, job_id: int) -> None:
    """Run a job in a thread, if one is free."""
    if _FREE.acquire(blocking=False):
        # The end of the server does not wait for it: every step is a transaction, and another process continues.
        Thread(target=_run_and_free, args=(site, job_id), name=f"workorders job {job_id}", daemon=True).start()


def run(site: Site, job_id: int) -> None:
    """Run a job; if it fails, its row has the error."""
    try:
        with site.writing() as connection:
            runner.run_job(connection, job_id)
    except (JobBusyError, JobEndedError) as other:
        _LOG.info("%s", other)
    except (WorkOrdersError, psycopg.Error) as error:
        # The job's row has it too, if the database could be reached.
        _LOG.error("Bulk operation %s: %s", job_id, one_line(error))


def _run_and_free(site: Site, job_id: int) -> None:
    try:
        run(site, job_id)
    finally:
        _FREE.release()
