"""How a failure reads on the page of its task in Airflow."""

import logging
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowNotFoundException,
    AirflowRuntimeError,
    AirflowSecretsBackendAccessDenied,
)

from workorders.airflow.retries import describe_next_retry
from workorders.core.exceptions import WorkOrdersError, one_line
from workorders.core.postgres.connection import error_code

LINE_LENGTH = 100
"""Characters of a line that the page shows without being scrolled sideways."""
EXPECTED_FAILURES: Final = (
    psycopg.Error,
    WorkOrdersError,
    AirflowNotFoundException,
    AirflowSecretsBackendAccessDenied,
    AirflowRuntimeError,
)
"""Failures of a task that are no bug: Postgres, our own errors, a connection that Airflow does not have or give, and
Airflow itself."""


class TaskFailedError(WorkOrdersError):
    """A task failed; the sentence contains where, why, what was not done, and when the next try is."""


@contextmanager
def explain_failures(
    task: BaseOperator,
    context: Context,
    where: str,
    undone: str,
    error_class: type[WorkOrdersError] = TaskFailedError,
    *,
    final: tuple[type[WorkOrdersError], ...] = (),
    again: str | None = None,
) -> Iterator[None]:
    """Raise expected failures again with the whole sentence: where, why, what was not done, when the next try is.

    Errors of `final` already contain all of this, and a further try would only fail again: they end the task. `again`
    is what happens after the last try, for a task that needs no clear. The sentence is logged in short lines before.
    """
    try:
        yield
    except final as error:
        log_wrapped(task.log, str(error))
        raise AirflowFailException(str(error)) from None
    except EXPECTED_FAILURES as error:
        what_next = describe_next_retry(task, context["ti"], again)
        explained = error_class(f"{where}: {reason(error)} {undone} {what_next}")
        log_wrapped(task.log, str(explained))
        raise explained from error


def reason(error: Exception) -> str:
    """Return why something failed as one sentence, and add what to do if the error does not contain it."""
    sentence = one_line(error)
    if isinstance(error, AirflowNotFoundException):
        return f"{sentence.rstrip('.')}: define this connection in Airflow. [WO-CONNECTION-UNDEFINED]"
    if not sentence.endswith((".", "?", "!", "]")):
        sentence += "."
    # libpq's own text does not name the database.
    return f"Postgres: {sentence} [{error_code(error)}]" if isinstance(error, psycopg.Error) else sentence


def log_wrapped(log: "logging.Logger | Any", sentence: str) -> None:
    """Log an error in lines that Airflow's page shows without being scrolled sideways, right before a task fails by it.

    The page shows the exception itself, which ends the log, as one long line.
    """
    # A path, a name, or a command to copy is never split.
    for line in textwrap.wrap(sentence, LINE_LENGTH, break_long_words=False, break_on_hyphens=False):
        log.error("%s", line)
