"""Which stall of a partition an alert was recorded for."""

from alembic import op

revision = "kafka_0003"
down_revision = "kafka_0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the start of the stall that was alerted to the ledger."""
    op.execute("ALTER TABLE workorders.kafka_ledger ADD COLUMN alerted_since timestamptz")


def downgrade() -> None:
    """Forget which stalls were alerted."""
    op.execute("ALTER TABLE workorders.kafka_ledger DROP COLUMN alerted_since")
