"""Under which names a shard sends, and where its markers lie: what decides about an open batch must not be mistaken."""

from alembic import op

revision = "outbox_0003"
down_revision = "outbox_0002"
branch_labels = None
depends_on = None

_COLUMNS = """
    ALTER TABLE workorders.outbox_shards
        ADD COLUMN transactional_id_prefix text,
        ADD COLUMN markers_outbox_id uuid,
        ADD COLUMN markers_cluster text,
        ADD COLUMN markers_topic text,
        ADD COLUMN markers_topic_id text;
"""

_DROPS = """
    ALTER TABLE workorders.outbox_shards
        DROP COLUMN transactional_id_prefix, DROP COLUMN markers_outbox_id, DROP COLUMN markers_cluster,
        DROP COLUMN markers_topic, DROP COLUMN markers_topic_id;
"""


def upgrade() -> None:
    """Add what the next relay of each shard writes down."""
    op.execute(_COLUMNS)


def downgrade() -> None:
    """Forget it."""
    op.execute(_DROPS)
