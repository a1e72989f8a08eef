"""Writes log lines with their run and their trace."""

import logging
import sys
import time
import traceback

from workorders.core.worker.captured_text import cut, plain
from workorders.core.worker.context import Context


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


def failure(error: BaseException) -> tuple[str, str, str]:
    """Return type, text, and traceback of an error as its process sends them."""
    return _type_name(error), error_text(error), _traceback_text(error)


def error_text(error: BaseException) -> str:
    """Return the text of an error, or a replacement if the text cannot be created."""
    try:
        return cut(str(error))
    except BaseException as another:  # noqa: BLE001 - the text is created by other people's code
        return f"(its text cannot be created: {_type_name(another)})"


def _type_name(error: BaseException) -> str:
    return plain(type(error).__qualname__)


def _traceback_text(error: BaseException) -> str:
    """Return the traceback of an error below the frame that caught it."""
    own_frame = error.__traceback__
    try:
        return cut("".join(traceback.format_exception(type(error), error, own_frame.tb_next if own_frame else None)))
    except BaseException:  # noqa: BLE001 - the text of the error is created by other people's code
        return f"{_type_name(error)}: {error_text(error)}\n"
