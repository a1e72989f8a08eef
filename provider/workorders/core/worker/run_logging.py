"""Writes log lines with their run and their trace."""

import logging
import sys
import time
import traceback
from typing import Final

from workorders.core.worker.context import Context

MAX_TRACEBACK_CHARACTERS: Final = 8_000
"""Of a longer traceback the beginning and the end are kept, and the end is longer."""
MAX_ERROR_CHARACTERS: Final = 2_000
"""Maximum of the text of an error."""
_HEAD: Final = MAX_TRACEBACK_CHARACTERS // 4


class RunHandler(logging.Handler):
    """Writes every log record to standard error, with the current run."""

    def __init__(self) -> None:
        super().__init__()
        self.context: Context | None = None
        formatter = logging.Formatter("%(asctime)s %(levelname)s %(name)s%(run)s %(message)s", "%Y-%m-%dT%H:%M:%SZ")
        formatter.converter = time.gmtime
        self.setFormatter(formatter)

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        context = self.context
        record.run = "" if context is None else f" run={context.run_id} traceparent={context.traceparent}"
        try:
            print(self.format(record), file=sys.stderr, flush=True)  # noqa: T201 - it is the run's log
        except Exception:  # noqa: BLE001 - as every handler of logging does, which must not fail the run
            self.handleError(record)


def install() -> RunHandler:
    """Send all logging to standard error, at level INFO and above."""
    handler = RunHandler()
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    return handler


def error_text(error: BaseException) -> str:
    """Return the text of an error, bounded, or a replacement if the text cannot be created."""
    try:
        text = str(error)
    except Exception as another:  # noqa: BLE001 - the text is created by other people's code
        text = f"(its text cannot be created: {type(another).__name__})"
    return text if len(text) <= MAX_ERROR_CHARACTERS else f"{text[:MAX_ERROR_CHARACTERS]} ..."


def traceback_text(error: BaseException) -> str:
    """Return the traceback of an error below the caller's own frame, bounded."""
    own_frame = error.__traceback__
    try:
        lines = traceback.format_exception(type(error), error, own_frame.tb_next if own_frame else None)
    except Exception:  # noqa: BLE001 - the text of the error is created by other people's code
        return f"{type(error).__name__}: {error_text(error)}\n"
    text = "".join(lines)
    return (
        text
        if len(text) <= MAX_TRACEBACK_CHARACTERS
        else f"{text[:_HEAD]}\n  ...\n{text[_HEAD - MAX_TRACEBACK_CHARACTERS :]}"
    )
