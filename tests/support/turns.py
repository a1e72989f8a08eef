"""Workflows that ask for a worker, as their sensors in the triggerer do."""

from workorders.core.postgres.connection import Connection
from workorders.core.runs import fair_share


def ask(connection: Connection, name: str, *, seconds_ago: float = 0.0) -> None:
    """Let a workflow ask, and commit."""
    connection.execute(*fair_share.asking(name))
    connection.execute(
        """
        UPDATE workorders.turns SET asked_at = asked_at - make_interval(secs => %s)
        FROM workorders.workflows WHERE workflows.id = turns.workflow_id AND workflows.name = %s
        """,
        [seconds_ago, name],
    )
    connection.commit()
