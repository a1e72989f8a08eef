"""A user's Airflow: every task has the callbacks of Airflow, and `alerted` is one for a trigger's `notify`.

Each call is a line in the file that the environment names.
"""

import os
from pathlib import Path
from typing import Any

from airflow.sdk import BaseOperator

__all__ = ["task_policy"]


def task_policy(task: Any) -> None:
    """Give a task the callbacks, as a cluster policy does."""
    if isinstance(task, BaseOperator):
        task.on_failure_callback = [_failed]
        task.on_retry_callback = [_tried_again]


def alerted(context: Any) -> None:
    """Note a call of an ordinary callback that a trigger names."""
    _note("alerted", context)


def _failed(context: Any) -> None:
    _note("failed", context)


def _tried_again(context: Any) -> None:
    _note("up_for_retry", context)


def _note(word: str, context: Any) -> None:
    with Path(os.environ["STOCK_CALLS"]).open("a", encoding="utf-8") as file:
        file.write(f"{word} {context['ti'].dag_id} {context['ti'].task_id}\n")
