"""Connects the endpoints of `workorders.monitoring` with Airflow: the database and the token."""

from typing import TYPE_CHECKING, Final

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from workorders.airflow.connections import database_url
from workorders.core.environment import find_secret

if TYPE_CHECKING:
    from fastapi import APIRouter

TOKEN_CONNECTION: Final = "workorders_metrics"  # noqa: S105 - a name
"""The Airflow connection whose password is the token of the metrics, if no environment variable has it."""


def monitoring_router(database_connection: str = "workorders_db") -> "APIRouter":
    """Return the router with `/metrics` and `/health` for the database of an Airflow connection."""
    # Here, because only the API server needs FastAPI.
    from workorders.monitoring.api import TOKEN_VARIABLE, make_router, read_samples  # noqa: PLC0415

    return make_router(
        lambda: read_samples(lambda: database_url(database_connection)),
        lambda: find_secret(TOKEN_VARIABLE) or _password_of(TOKEN_CONNECTION),
    )


def _password_of(connection_id: str) -> str | None:
    try:
        return BaseHook.get_connection(connection_id).password
    except AirflowNotFoundException:
        return None
