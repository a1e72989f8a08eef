"""Turns: which workflow asks for a worker, and which one ended its turn for another."""

from alembic import op

revision = "core_0008"
down_revision = "core_0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table; a workflow gets a row when it asks for the first time."""
    op.execute(
        """
        CREATE TABLE workorders.turns (
            workflow_id integer PRIMARY KEY REFERENCES workorders.workflows (id),
            asked_at timestamptz,
            given integer NOT NULL DEFAULT 0,
            given_at timestamptz,
            given_up text
        );
        """
    )


def downgrade() -> None:
    """Drop the table; nobody asks then, and turns last as long as something waits."""
    op.execute("DROP TABLE workorders.turns")
