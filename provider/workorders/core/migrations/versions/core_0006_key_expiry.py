"""Source keys that are forgotten after their time, and the rates of triggers."""

from alembic import op

revision = "core_0006"
down_revision = "kafka_0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Let keys end, found by an index; those that are there stay for ever."""
    op.execute(
        """
        ALTER TABLE workorders.source_keys ADD COLUMN expires_at timestamptz;
        CREATE INDEX source_keys_expires_at_idx ON workorders.source_keys (expires_at) WHERE expires_at IS NOT NULL;

        CREATE UNLOGGED TABLE workorders.trigger_rates (
            trigger_id integer PRIMARY KEY,
            granted boolean NOT NULL,
            held double precision NOT NULL,
            filled_at timestamptz NOT NULL
        ) WITH (fillfactor = 50);
        """
    )


def downgrade() -> None:
    """Keep every key for ever."""
    op.execute(
        """
        DROP TABLE workorders.trigger_rates;
        DROP INDEX workorders.source_keys_expires_at_idx;
        ALTER TABLE workorders.source_keys DROP COLUMN expires_at;
        """
    )
