"""Exports work orders to a file of JSON Lines or CSV, which gets its name when it is complete."""

import csv
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from io import StringIO
from pathlib import Path
from typing import Final
from uuid import UUID

from workorders.core.bulk import jobs
from workorders.core.bulk.jobs import IN_USE, Job, JobHandler, StepResult
from workorders.core.exceptions import ConfigurationError, WorkOrdersError
from workorders.core.history import work_orders
from workorders.core.history.filters import Filter
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.core.bulk", "sql/export.sql")

FORMATS: Final = ("jsonl", "csv")
COLUMNS: Final = (
    "id",
    "created_at",
    "trigger",
    "trigger_type",
    "workflow",
    "state",
    "stream",
    "position",
    "reason",
    "detail",
    "raw_base64",
    "attempts",
    "error_type",
    "error",
    "request",
    "body",
)
"""The fields of a line, in this order; `request` and `body` are JSON."""

_SAMPLE: Final = 50
"""Work orders whose lines are measured for an estimate."""

_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet treats a cell that begins with one of these as a formula, and the senders of events write the cells."""


class ExportFileError(WorkOrdersError):
    """The file cannot be written."""


def export_options(file: Path, format_: str | None = None) -> dict[str, str]:
    """Return the options of an export job: the file and the format, which is by default the suffix of the file's name.

    Raises:
        ConfigurationError: the format is unknown, the folder is missing, or the file exists.
    """
    chosen = format_ or file.suffix.removeprefix(".")
    if chosen not in FORMATS:
        raise ConfigurationError(f"The format of the export is {chosen!r}, but must be one of {', '.join(FORMATS)}.")
    if not file.parent.is_dir():
        raise ConfigurationError(f"The folder of {file} does not exist; nothing was exported; create it.")
    if file.exists():
        raise ConfigurationError(f"The file {file} already exists; nothing was exported; name another.")
    return {"file": str(file.absolute()), "format": chosen}


class ExportHandler(JobHandler):
    """The work of an export job. It begins at the first work order each time, because half a file is useless."""

    sizes = "exported_bytes"

    def __init__(self, file: Path | None) -> None:
        """Take the file that the caller names.

        The job's row names it too, but a user with access to that table must not choose where the caller writes.
        """
        self._wanted = file
        self._file = Path()
        self._part = Path()
        self._incomplete = ExitStack()

    def begin(self, connection: Connection, job: Job, worker: UUID) -> None:
        """Open a new file in the folder of the export's file.

        Raises:
            ExportFileError: the caller named another file, the folder cannot be written to, or the file exists.
        """
        if job.is_download:
            raise ExportFileError(
                f"Job {job.id} is an export to a browser; nothing was exported; download it on the page of the job."
            )
        self._file = Path(job.options["file"])
        if self._wanted is None or self._wanted.absolute() != self._file:
            raise ExportFileError(
                f"Job {job.id} is an export to {self._file}, which is not the file that you named; nothing was "
                f"exported; `workorders jobs resume {job.id} --file {self._file}` exports to it."
            )
        # Its name contains the worker's id: a worker that was assumed dead may still write to its own file.
        self._part = self._file.with_name(f".{self._file.name}.{worker.hex[:12]}.part")
        if self._file.exists():
            raise ExportFileError(f"The file {self._file} already exists; nothing was exported; name another.")
        try:
            self._remove_left_parts()
            stream = open(self._part, "x", encoding="utf-8", newline="", opener=_private)  # noqa: SIM115
            self._stream = self._incomplete.enter_context(stream)
            self._incomplete.callback(self._part.unlink, missing_ok=True)
            self._stream.write(head(job.options["format"]))
        except OSError as error:
            raise self._refused(error) from error
        jobs.restart(connection, job.id, worker)

    def step(self, connection: Connection, job: Job, ids: Sequence[UUID]) -> StepResult:
        """Write the lines of some work orders.

        Raises:
            ExportFileError: the disk is full, for instance.
        """
        try:
            result = write_lines(connection, job, ids, self._stream.write)
            self._stream.flush()
        except OSError as error:
            raise self._refused(error) from error
        return result

    def finish(self) -> None:
        """Give the whole file its name.

        Raises:
            ExportFileError: it cannot be brought to the disk.
        """
        try:
            self._stream.flush()
            os.fsync(self._stream.fileno())
            self._stream.close()
            self._part.replace(self._file)
        except OSError as error:
            raise self._refused(error) from error

    def abandon(self) -> None:
        """Remove the incomplete file."""
        self._incomplete.close()

    def after(self, error: BaseException) -> tuple[str, str]:
        """Return failed: only a person can name the file again."""
        return "failed", super().after(error)[1]

    def _remove_left_parts(self) -> None:
        """Remove the incomplete files of killed workers; a live worker writes more often than the timeout."""
        for path in self._file.parent.iterdir():
            is_part = path.name.startswith(f".{self._file.name}.") and path.suffix == ".part"
            if is_part and time.time() - path.lstat().st_mtime > jobs.HEARTBEAT_TIMEOUT.total_seconds():
                path.unlink(missing_ok=True)

    def _refused(self, error: OSError) -> ExportFileError:
        return ExportFileError(
            f"The export could not be written to {self._file} ({error.strerror}); no file of that name was created."
        )


def head(format_: str) -> str:
    """Return the first line of a file, which JSON Lines do not have."""
    return _csv_line(COLUMNS) if format_ == "csv" else ""


def lines(connection: Connection, ids: Sequence[UUID], format_: str) -> Iterator[str]:
    """Yield the lines of some work orders, in the caller's transaction.

    Row by row, because a body may be hundreds of times as long as its stored form.
    """
    is_csv = format_ == "csv"
    for row in connection.cursor().stream(_QUERIES["cells" if is_csv else "lines"], {"ids": list(ids)}):
        yield _csv_line([cell(value) for value in row]) if is_csv else f"{row[0]}\n"


def estimate_bytes(connection: Connection, wanted: Filter, total: int) -> int:
    """Return about how many bytes an export of so many work orders has as JSON Lines, by the oldest ones."""
    ids = work_orders.find_matching(connection, wanted, after=None, limit=_SAMPLE).ids
    sizes = [len(line.encode()) for line in lines(connection, ids, "jsonl")]
    return total * sum(sizes) // max(1, len(sizes))


def cut_off(format_: str, sentence: str) -> str:
    """Return the last line of a file that is not complete, which no reader takes for a work order."""
    return _csv_line([sentence]) if format_ == "csv" else f"{json.dumps({'error': sentence}, ensure_ascii=False)}\n"


def write_lines(connection: Connection, job: Job, ids: Sequence[UUID], write: Callable[[str], object]) -> StepResult:
    """Write the lines of a step of a job."""
    written = 0
    for line in lines(connection, ids, job.options["format"]):
        write(line)
        written += 1
    return StepResult(written, {IN_USE: len(ids) - written} if written < len(ids) else {})


def _csv_line(cells: Sequence[str]) -> str:
    line = StringIO(newline="")
    csv.writer(line).writerow(cells)
    return line.getvalue()


def _private(path: str, flags: int) -> int:
    # No other user of this machine may read the bodies.
    return os.open(path, flags, 0o600)


def cell(value: str | None) -> str:
    """Return a CSV cell that no spreadsheet treats as a formula."""
    if value is None:
        return ""
    return f"'{value}" if value.startswith(_FORMULA_STARTS) and not value.removeprefix("-").isdigit() else value
