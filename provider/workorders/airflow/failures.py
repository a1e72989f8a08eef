"""How a failure reads on the page of its task."""

import logging
import textwrap
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from workorders.core.exceptions import WorkOrdersError

LINE_LENGTH = 100
"""Characters of a line that the page shows without being scrolled sideways."""

Execute = TypeVar("Execute", bound=Callable[..., Any])


def readable(execute: Execute) -> Execute:
    """Let an operator's `execute` log the sentence of its failure in short lines, right before it fails.

    The exception itself says it as well, and ends the log; but Airflow's page shows that as one long line, of which
    nobody sees the end: when the next try is, and what to do.
    """

    @wraps(execute)
    def executed(self: Any, context: Any) -> Any:
        try:
            return execute(self, context)
        except WorkOrdersError as error:
            _say(self.log, str(error))
            raise

    return executed  # type: ignore[return-value]


def _say(log: "logging.Logger", sentence: str) -> None:
    # A path, a name or a command to copy stays whole, however long it is.
    for line in textwrap.wrap(sentence, LINE_LENGTH, break_long_words=False, break_on_hyphens=False):
        log.error("%s", line)
