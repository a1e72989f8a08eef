"""The Airflow hook of the work orders' database."""

from typing import Any

import psycopg
from airflow.sdk import BaseHook

from workorders.airflow.connections import database_url
from workorders.core import schema
from workorders.core.exceptions import WorkOrdersError, one_line
from workorders.core.postgres.connection import Connection, connect

__all__ = ["WorkOrdersHook"]


class WorkOrdersHook(BaseHook):
    """Gives a connection to the work orders' database; a plain Postgres connection of Airflow serves as well."""

    conn_name_attr = "workorders_conn_id"
    default_conn_name = "workorders_db"
    conn_type = "workorders"
    hook_name = "Work orders"

    def __init__(self, workorders_conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.workorders_conn_id = workorders_conn_id

    def get_conn(self) -> Connection:
        """Open a psycopg connection; the caller closes it."""
        return connect(database_url(self.workorders_conn_id), application_name="workorders hook")

    def test_connection(self) -> tuple[bool, str]:
        """Return whether the database answers and has the tables that this package needs, and a sentence."""
        try:
            schema.require_newest(database_url(self.workorders_conn_id))
        except (psycopg.Error, WorkOrdersError) as error:
            return False, one_line(error)
        return True, f"The database answers; its tables are at version {schema.newest()}."
