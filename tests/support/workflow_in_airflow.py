"""Work orders of one workflow that the stack's own Airflow executes."""

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

from workorders.core import triggers, workflows
from workorders.core.attribution import Attribution
from workorders.core.bulk import runner
from workorders.core.creation.work_orders import create_for
from workorders.core.items import Item
from workorders.core.postgres.connection import Connection, connect
from workorders.core.runs import delegation


class Orders:
    """The work orders of one workflow."""

    def __init__(self, database_url: str, workflow: str) -> None:
        self._url = database_url
        self.workflow = workflow

    def create(self, bodies: list[dict[str, Any]]) -> None:
        """Create a work order for each input."""
        with connect(self._url) as connection:
            self._create(connection, bodies)

    def _create(self, connection: Connection, bodies: list[dict[str, Any]]) -> None:
        trigger = triggers.register(
            connection, name=f"{self.workflow}-e2e", type_="kafka", workflow=self.workflow, definition={}
        )
        create_for(connection, trigger, [Item(None, None, b"{}", json.dumps(body).encode()) for body in bodies])

    def create_claimed(self, body: dict[str, Any], leave: Callable[[UUID], object]) -> None:
        """Create a work order whose run was claimed by a task that died; no other sees it before this returns.

        Args:
            body: the input.
            leave: is called with the id of the run.
        """
        with connect(self._url) as connection:
            self._create(connection, [body])
            (run,) = delegation.claim(connection, workflows.find(connection, self.workflow), limit=2)
            leave(run.run_id)

    def finished(self) -> list[tuple[str, str, str | None, str | None, str | None]]:
        """Return state of work order and run, type and text of the error, and log, of all when all are finished."""
        with connect(self._url) as connection:
            rows = connection.execute(
                """
                SELECT work_orders.state::text, runs.state::text, runs.error_type, runs.error, run_results.log
                FROM workorders.work_orders
                JOIN workorders.workflows ON workflows.id = work_orders.workflow_id
                LEFT JOIN workorders.runs ON runs.work_order_id = work_orders.id
                LEFT JOIN workorders.run_results ON run_results.run_id = runs.id
                WHERE workflows.name = %s
                ORDER BY work_orders.id
                """,
                [self.workflow],
            ).fetchall()
        return [] if any(row[0] in {"pending", "requeued", "running"} for row in rows) else rows

    def count(self, state: str) -> int:
        """Return how many work orders are in a state."""
        with connect(self._url) as connection:
            row = connection.execute(
                """
                SELECT count(*) FROM workorders.work_orders
                JOIN workorders.workflows ON workflows.id = work_orders.workflow_id
                WHERE workflows.name = %s AND state = %s::workorders.work_order_state
                """,
                [self.workflow, state],
            ).fetchone()
        return row[0] if row else 0

    def cancel(self) -> None:
        """Cancel all that wait."""
        with connect(self._url) as connection:
            rows = connection.execute(
                """
                SELECT work_orders.id FROM workorders.work_orders
                JOIN workorders.workflows ON workflows.id = work_orders.workflow_id
                WHERE workflows.name = %s AND state IN ('pending', 'requeued')
                """,
                [self.workflow],
            ).fetchall()
            runner.cancel_work_orders(connection, [id_ for (id_,) in rows], Attribution("a test", "it has seen enough"))
