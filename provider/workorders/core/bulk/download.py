"""Exports work orders to a caller who takes the file in parts, such as a browser, as a job that shows its progress."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from tempfile import SpooledTemporaryFile
from typing import Final
from uuid import UUID

from workorders.core.bulk import export, jobs, runner
from workorders.core.bulk.jobs import Job, JobEndedError, JobHandler, StepResult
from workorders.core.postgres.connection import Connection

STEP: Final = 200
"""Work orders that are read at once, while the caller waits."""
_PART: Final = 64 * 1024
"""Characters of a part."""
_IN_MEMORY: Final = 1024 * 1024
"""Bytes of a step that are kept in memory; what is more goes to a temporary file."""
_INCOMPLETE: Final = "The file is not complete: delete it, and download it again."


class DownloadHandler(JobHandler):
    """The work of an export to a caller. It begins at the first work order each time, because half a file is useless.

    It reads a whole step before the caller gets its first part: a slow caller must not keep a transaction open.
    """

    sizes = "exported_bytes"

    def __init__(self) -> None:
        self._lines = SpooledTemporaryFile(_IN_MEMORY, "w+", encoding="utf-8", newline="")  # noqa: SIM115

    def begin(self, connection: Connection, job: Job, worker: UUID) -> None:
        """Write the head of the file."""
        jobs.restart(connection, job.id, worker)
        self._lines.write(export.head(job.options["format"]))

    def step(self, connection: Connection, job: Job, ids: Sequence[UUID]) -> StepResult:
        """Keep the lines of some work orders for the caller."""
        return export.write_lines(connection, job, ids, self._lines.write)

    def take(self) -> Iterator[bytes]:
        """Yield what was written since the last call, and forget it."""
        self._lines.seek(0)
        while part := self._lines.read(_PART):
            yield part.encode()
        self._lines.seek(0)
        self._lines.truncate()

    def abandon(self) -> None:
        """Forget what was not taken."""
        self._lines.close()

    def after(self, error: BaseException) -> tuple[str, str]:
        """Return that the job waits for a person, who knows that the file is not complete."""
        why = "The download was ended early." if isinstance(error, GeneratorExit) else super().after(error)[1]
        return "waiting", f"{why} {_INCOMPLETE}"


def parts(connection: Connection, job_id: int) -> Generator[bytes]:
    """Execute an export, and yield the parts of its file; no transaction is open meanwhile.

    Who takes no more parts closes this: the job then waits, and can be downloaded again.

    Raises:
        UnknownJobError: there is no such job.
        JobBusyError: another process executes it.
        JobEndedError: it had ended before, or a person has stopped it.
        psycopg.Error: the database failed; what was yielded is incomplete.
    """
    doing = DownloadHandler()
    with ExitStack() as stack:
        stack.callback(doing.abandon)
        steps = stack.enter_context(closing(runner.run_steps(connection, job_id, lambda _: doing, step=STEP)))
        for _ in steps:
            yield from doing.take()
        with connection.transaction():
            job = jobs.get_job(connection, job_id)
        if job.state != "finished":
            raise JobEndedError(f"Job {job_id} was stopped after {job.done:,} of {job.total:,} lines. {_INCOMPLETE}")
        yield from doing.take()  # the head of a file without work orders
