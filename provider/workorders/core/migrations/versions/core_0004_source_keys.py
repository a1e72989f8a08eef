"""Events that are known by texts of any length."""

from alembic import op

revision = "core_0004"
down_revision = "core_0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table that numbers them."""
    op.execute(
        """
        CREATE TABLE workorders.source_keys (
            stream_id integer NOT NULL REFERENCES workorders.source_streams (id),
            key_hash bytea NOT NULL,
            position bigint GENERATED ALWAYS AS IDENTITY,
            created_at timestamptz NOT NULL DEFAULT now(),
            PRIMARY KEY (stream_id, key_hash)
        )
        """
    )


def downgrade() -> None:
    """Forget the texts; what was created for them stays."""
    op.execute("DROP TABLE workorders.source_keys")
