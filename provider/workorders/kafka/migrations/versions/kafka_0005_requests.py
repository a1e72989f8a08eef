"""Which request a decision belongs to, so that it is made once, and whose account it was made from."""

from alembic import op

revision = "kafka_0005"
down_revision = "outbox_0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Let a decision name its request and the account; those from before have neither."""
    op.execute(
        """
        ALTER TABLE workorders.kafka_decisions ADD COLUMN account text, ADD COLUMN request_key text;
        CREATE UNIQUE INDEX kafka_decisions_request_idx ON workorders.kafka_decisions (request_key, partition)
            WHERE request_key IS NOT NULL;
        """
    )


def downgrade() -> None:
    """Forget the requests and the accounts."""
    op.execute("ALTER TABLE workorders.kafka_decisions DROP COLUMN request_key, DROP COLUMN account")
