"""Who asked for a run of a DAG."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from airflow.sdk import Context

NOBODY: Final = "somebody whom Airflow does not name"
"""Who asked, where Airflow runs without users."""


def user_of(context: "Context") -> str:
    """Return the name of the user who sent the form or pressed the button."""
    return context["dag_run"].triggering_user_name or NOBODY
