"""Sequences know when they were last used, so that retention can erase their names; jobs and decisions, the account."""

from alembic import op

revision = "core_0012"
down_revision = "core_0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Count the age of the sequences that are there from now; nobody knows when they were last used."""
    op.execute(
        """
        ALTER TABLE workorders.sequences ADD COLUMN used_at timestamptz NOT NULL DEFAULT now();
        ALTER TABLE workorders.sequence_decisions ADD COLUMN account text;
        ALTER TABLE workorders.bulk_jobs ADD COLUMN account text;
        """
    )


def downgrade() -> None:
    """Forget when sequences were used, and the accounts."""
    op.execute(
        """
        ALTER TABLE workorders.sequences DROP COLUMN used_at;
        ALTER TABLE workorders.sequence_decisions DROP COLUMN account;
        ALTER TABLE workorders.bulk_jobs DROP COLUMN account;
        """
    )
