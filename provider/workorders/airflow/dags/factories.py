"""When our DAGs run."""

from datetime import UTC, datetime
from typing import Any, Final

from airflow.sdk import DAG

START: Final = datetime(2024, 1, 1, tzinfo=UTC)
"""Any time in the past: runs follow one another, or a person's wish, and belong to no interval."""


def always_running(dag_id: str, **about: Any) -> DAG:
    """Return a DAG of which one run follows the other, for a sensor that waits at its head."""
    return DAG(dag_id, schedule="@continuous", start_date=START, max_active_runs=1, catchup=False, **about)


def by_hand(dag_id: str, **about: Any) -> DAG:
    """Return a DAG that runs when a person triggers it, and at no other time."""
    # Paused, the form would do nothing.
    return DAG(dag_id, schedule=None, start_date=START, is_paused_upon_creation=False, **about)


def by_clock(dag_id: str, schedule: str, **about: Any) -> DAG:
    """Return a DAG that runs at set times, one run after the other; times that were missed are not made up for."""
    return DAG(dag_id, schedule=schedule, start_date=START, catchup=False, max_active_runs=1, **about)
