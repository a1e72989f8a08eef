"""How a failure reads on the page of its task."""

import logging
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar

import psycopg
from airflow.sdk.exceptions import (
    AirflowNotFoundException,
    AirflowRuntimeError,
    AirflowSecretsBackendAccessDenied,
)

from workorders.airflow.retries import next_try
from workorders.core.exceptions import WorkOrdersError, one_line
from workorders.core.postgres.connection import error_code

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context

LINE_LENGTH = 100
"""Characters of a line that the page shows without being scrolled sideways."""
FAILURES: Final = (
    psycopg.Error,
    WorkOrdersError,
    AirflowNotFoundException,
    AirflowSecretsBackendAccessDenied,
    AirflowRuntimeError,
)
"""What a task of ours fails by when it is no mistake of ours: Postgres, what we raise on purpose, a connection that
Airflow does not have or give, and Airflow itself."""

Execute = TypeVar("Execute", bound=Callable[..., Any])


class TaskFailedError(WorkOrdersError):
    """A task could not do its work; the sentence says where, why, what was not done, and when the next try is."""


def readable(execute: Execute) -> Execute:
    """Let an operator's `execute` log the sentence of its failure in short lines, right before it fails.

    The exception itself says it as well, and ends the log; but Airflow's page shows that as one long line, of which
    nobody sees the end: when the next try is, and what to do.
    """

    @wraps(execute)
    def executed(self: Any, context: Any, *arguments: Any, **named: Any) -> Any:
        try:
            return execute(self, context, *arguments, **named)
        except WorkOrdersError as error:
            _say(self.log, str(error))
            raise

    return executed  # type: ignore[return-value]


@contextmanager
def explained(
    task: "BaseOperator",
    context: "Context",
    where: str,
    undone: str,
    error_class: type[WorkOrdersError] = TaskFailedError,
    *,
    whole: tuple[type[WorkOrdersError], ...] = (),
    again: str | None = None,
) -> Iterator[None]:
    """Let whatever fails in it fail with the whole sentence: where, why, what was not done, when the next try is.

    Args:
        task: the operator that is at work; it says whether and when it is tried again.
        context: of its try.
        where: what it works on, as a sentence begins: "Trigger orders".
        undone: a sentence about what was done and what was not.
        error_class: what is raised.
        whole: errors that say all of this but the last already; they pass as they are.
        again: what to do after the last try, of a task that clearing does not help.
    """
    try:
        yield
    except whole:
        raise
    except FAILURES as error:
        what_next = next_try(task, context["ti"], again)
        raise error_class(f"{where}: {reason(error)} {undone} {what_next}") from error


def reason(error: Exception) -> str:
    """Return why something failed as one sentence, with what a person can do where the error itself does not say it."""
    said = one_line(error)
    if isinstance(error, AirflowNotFoundException):
        return f"{said.rstrip('.')}: define this connection in Airflow. [WO-CONNECTION-UNDEFINED]"
    if not said.endswith((".", "?", "!", "]")):
        said += "."
    # libpq's own text does not say whose it is.
    return f"Postgres: {said} [{error_code(error)}]" if isinstance(error, psycopg.Error) else said


def _say(log: "logging.Logger", sentence: str) -> None:
    # A path, a name or a command to copy stays whole, however long it is.
    for line in textwrap.wrap(sentence, LINE_LENGTH, break_long_words=False, break_on_hyphens=False):
        log.error("%s", line)
