"""What the breaker found of a range, and by which rules, so that a retry need not read it again to find the same."""

from alembic import op

revision = "kafka_0004"
down_revision = "core_0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Let a range keep the breaker's verdict."""
    op.execute(
        """
        ALTER TABLE workorders.kafka_ranges
            ADD COLUMN breaker_rules text,
            ADD COLUMN breaker_verdict text,
            ADD CONSTRAINT kafka_ranges_breaker_check CHECK ((breaker_rules IS NULL) = (breaker_verdict IS NULL))
        """
    )


def downgrade() -> None:
    """Forget what the breaker found."""
    op.execute("ALTER TABLE workorders.kafka_ranges DROP COLUMN breaker_rules, DROP COLUMN breaker_verdict")
