"""Who triggered a Dag run."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from airflow.sdk import Context

UNKNOWN_USER: Final = "unknown user"
"""The user where Airflow runs without users."""


def triggering_user(context: "Context") -> str:
    """Return the name of the user who triggered the Dag run, by a form or otherwise."""
    return context["dag_run"].triggering_user_name or UNKNOWN_USER
