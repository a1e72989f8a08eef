"""Exports work orders to a file of JSON Lines or CSV, which appears under its name when it is whole."""

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final
from uuid import UUID

from workorders.core import jobs
from workorders.core.database import Connection
from workorders.core.exceptions import ConfigurationError, WorkOrdersError
from workorders.core.jobs import IN_USE, Job, Outcome
from workorders.core.queries import load_queries

_QUERIES = load_queries("workorders.core", "sql/exports.sql")

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
"""What stands in a line, in this order; `request` and `body` are JSON."""

_OBEYED: Final = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet takes a cell that begins so for a formula, and these were written by anybody."""


class ExportFileError(WorkOrdersError):
    """The file cannot be written."""


def options(file: Path, format_: str | None = None) -> dict[str, str]:
    """Return the options of an export job: where to, and in which form; the ending of the name says it by itself.

    Raises:
        ConfigurationError: the form is unknown, the folder is missing, or the file is there already.
    """
    chosen = format_ or file.suffix.removeprefix(".")
    if chosen not in FORMATS:
        raise ConfigurationError(f"The form of the export is {chosen!r}, but must be one of {', '.join(FORMATS)}.")
    if not file.parent.is_dir():
        raise ConfigurationError(f"The folder of {file} does not exist; nothing was exported; create it.")
    if file.exists():
        raise ConfigurationError(f"The file {file} is there already; nothing was exported; name another.")
    return {"file": str(file.absolute()), "format": chosen}


class Export:
    """The work of an export job. It begins from the first work order each time, for half a file is of no use."""

    def __init__(self) -> None:
        self._file = Path()
        self._part = Path()
        self._stream: IO[str] | None = None

    def begin(self, connection: Connection, job: Job, worker: UUID) -> None:
        """Open a new file beside the one that is wanted.

        Raises:
            ExportFileError: the folder cannot be written to, or the file is there already.
        """
        self._file = Path(job.options["file"])
        # Named by its writer: one that was taken for dead may still write into its own.
        self._part = self._file.with_name(f".{self._file.name}.{worker.hex[:12]}.part")
        if self._file.exists():
            raise ExportFileError(f"The file {self._file} is there already; nothing was exported; name another.")
        try:
            self._stream = self._part.open("x", encoding="utf-8", newline="")
            if job.options["format"] == "csv":
                csv.writer(self._stream).writerow(COLUMNS)
        except OSError as error:
            raise self._refused(error) from error
        jobs.begin_again(connection, job.id, worker)

    def step(self, connection: Connection, job: Job, ids: Sequence[UUID]) -> Outcome:
        """Write the lines of some work orders.

        Raises:
            ExportFileError: the disk is full, for instance.
        """
        if self._stream is None:
            raise AssertionError("The export was not begun.")
        try:
            if job.options["format"] == "csv":
                rows = connection.execute(_QUERIES["cells"], {"ids": list(ids)}).fetchall()
                csv.writer(self._stream).writerows([cell(value) for value in row] for row in rows)
            else:
                rows = connection.execute(_QUERIES["lines"], {"ids": list(ids)}).fetchall()
                self._stream.writelines(f"{line}\n" for (line,) in rows)
            self._stream.flush()
        except OSError as error:
            raise self._refused(error) from error
        return Outcome(len(rows), {IN_USE: len(ids) - len(rows)} if len(rows) < len(ids) else {})

    def finish(self) -> None:
        """Give the whole file its name.

        Raises:
            ExportFileError: it cannot be brought to the disk.
        """
        if self._stream is None:
            raise AssertionError("The export was not begun.")
        try:
            self._stream.flush()
            os.fsync(self._stream.fileno())
            self._stream.close()
            self._part.replace(self._file)
        except OSError as error:
            raise self._refused(error) from error

    def abandon(self) -> None:
        """Remove what was written."""
        if self._stream is not None:
            self._stream.close()
            self._part.unlink(missing_ok=True)

    def _refused(self, error: OSError) -> ExportFileError:
        return ExportFileError(
            f"The export could not be written to {self._file} ({error.strerror}); no file of that name was made."
        )


def cell(value: str | None) -> str:
    """Return a CSV cell that no spreadsheet takes for a formula."""
    if value is None:
        return ""
    return f"'{value}" if value.startswith(_OBEYED) and not value.removeprefix("-").isdigit() else value
