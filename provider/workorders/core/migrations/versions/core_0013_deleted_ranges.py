"""What was deleted takes a row a batch and not a row a message, where a stream has gaps or its keys guard it."""

from alembic import op

revision = "core_0013"
down_revision = "core_0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Count the work orders of a deleted range apart from its positions, and note which ranges are whole."""
    op.execute(
        """
        ALTER TABLE workorders.deleted_positions ADD COLUMN work_orders bigint;
        UPDATE workorders.deleted_positions SET work_orders = to_position - from_position;
        ALTER TABLE workorders.deleted_positions
            ALTER COLUMN work_orders SET NOT NULL,
            ADD CONSTRAINT deleted_positions_work_orders_check
                CHECK (work_orders > 0 AND work_orders <= to_position - from_position);

        CREATE TABLE workorders.whole_ranges (
            stream_id integer NOT NULL REFERENCES workorders.source_streams (id),
            from_position bigint NOT NULL,
            to_position bigint NOT NULL,
            work_orders bigint NOT NULL,
            PRIMARY KEY (stream_id, from_position, to_position),
            CONSTRAINT whole_ranges_range_check CHECK (from_position < to_position)
        );

        ALTER TABLE workorders.source_streams ADD COLUMN is_keyed boolean NOT NULL DEFAULT false;
        """
    )


def downgrade() -> None:
    """Write every range of which the gaps were left out as if it had none: nothing deleted may come back."""
    op.execute(
        """
        ALTER TABLE workorders.source_streams DROP COLUMN is_keyed;
        DROP TABLE workorders.whole_ranges;
        ALTER TABLE workorders.deleted_positions DROP COLUMN work_orders;
        """
    )
