"""What operators decided where Kafka lost data, and the ranges that their decisions put aside."""

from alembic import op

revision = "kafka_0002"
down_revision = "kafka_0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table of decisions, and let a range be superseded by one."""
    op.execute(
        """
        CREATE TABLE workorders.kafka_decisions (
            id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            decided_at timestamptz NOT NULL DEFAULT now(),
            who text NOT NULL,
            why text NOT NULL,
            trigger_id integer NOT NULL REFERENCES workorders.triggers (id),
            topic text NOT NULL,
            partition integer NOT NULL,
            kind text NOT NULL,
            from_topic_id text NOT NULL,
            from_offset bigint NOT NULL,
            to_topic_id text NOT NULL,
            to_offset bigint NOT NULL,
            lost_start bigint,
            lost_end bigint,
            superseded_batch_id bigint REFERENCES workorders.kafka_batches (id),
            epoch bigint NOT NULL,
            CONSTRAINT kafka_decisions_kind_check CHECK (kind IN ('resume', 'accept-topic', 'start-over')),
            CONSTRAINT kafka_decisions_offsets_check CHECK (from_offset >= 0 AND to_offset >= 0),
            CONSTRAINT kafka_decisions_lost_check CHECK (
                (lost_start IS NULL) = (lost_end IS NULL) AND lost_start < lost_end
            ),
            CONSTRAINT kafka_decisions_reason_check CHECK (btrim(who) <> '' AND btrim(why) <> '')
        );
        CREATE INDEX kafka_decisions_trigger_id_id_idx ON workorders.kafka_decisions (trigger_id, id);
        ALTER TABLE workorders.kafka_ledger ADD COLUMN generation bigint NOT NULL DEFAULT 0;
        ALTER TABLE workorders.kafka_ranges
            ADD COLUMN generation bigint NOT NULL DEFAULT 0,
            ADD COLUMN already_there bigint NOT NULL DEFAULT 0,
            ADD COLUMN superseded_by bigint REFERENCES workorders.kafka_decisions (id),
            ADD CONSTRAINT kafka_ranges_superseded_check CHECK (superseded_by IS NULL OR finished_at IS NULL);
        DROP INDEX workorders.kafka_ranges_unfinished_idx;
        CREATE UNIQUE INDEX kafka_ranges_unfinished_idx ON workorders.kafka_ranges (trigger_id, topic, partition)
            WHERE finished_at IS NULL AND superseded_by IS NULL;
        """
    )


def downgrade() -> None:
    """Forget the decisions; a range that was superseded counts as finished with nothing created."""
    op.execute(
        """
        DROP INDEX workorders.kafka_ranges_unfinished_idx;
        ALTER TABLE workorders.kafka_ranges DROP CONSTRAINT kafka_ranges_superseded_check;
        UPDATE workorders.kafka_ranges
        SET finished_at = now(), created = 0, rejected = 0
        WHERE superseded_by IS NOT NULL;
        ALTER TABLE workorders.kafka_ranges
            DROP COLUMN generation, DROP COLUMN already_there, DROP COLUMN superseded_by;
        CREATE UNIQUE INDEX kafka_ranges_unfinished_idx ON workorders.kafka_ranges (trigger_id, topic, partition)
            WHERE finished_at IS NULL;
        ALTER TABLE workorders.kafka_ledger DROP COLUMN generation;
        DROP TABLE workorders.kafka_decisions;
        """
    )
