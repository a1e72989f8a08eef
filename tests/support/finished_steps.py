"""Steps that runs have finished, as their workers store them."""

from uuid import UUID

from psycopg.types.json import Jsonb

from workorders.core.postgres.connection import Connection


def add_step(
    connection: Connection, run_id: UUID, name: str, result: object = None, *, committed_elsewhere: bool = False
) -> None:
    """Store that a run has finished a step, and commit."""
    connection.execute(
        """
        INSERT INTO workorders.steps (work_order_id, generation, name, result, run_id, committed_elsewhere, finished_at)
        SELECT work_order_id, generation, %(name)s, %(result)s, id, %(committed_elsewhere)s, clock_timestamp()
        FROM workorders.runs WHERE id = %(run_id)s
        """,
        {"run_id": run_id, "name": name, "result": Jsonb(result), "committed_elsewhere": committed_elsewhere},
    )
    connection.commit()
