"""Repeats that create nothing are counted beside the work order that they repeat."""

from alembic import op

revision = "core_0009"
down_revision = "core_0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table; a work order gets a row with its first repeat. Half empty pages keep the counting in place."""
    op.execute(
        """
        CREATE TABLE workorders.repeats (
            work_order_id uuid PRIMARY KEY,
            times bigint NOT NULL,
            last_at timestamptz NOT NULL,
            last_request jsonb
        ) WITH (fillfactor = 50);
        """
    )


def downgrade() -> None:
    """Forget how often events were repeated by their keys."""
    op.execute("DROP TABLE workorders.repeats")
