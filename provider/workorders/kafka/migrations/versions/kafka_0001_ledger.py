"""The ledger, batches and ranges of Kafka triggers."""

from alembic import op

revision = "kafka_0001"
# One line of versions through all rooms: the version of the schema is one word.
down_revision = "core_0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the Kafka room's tables, and the sequence that epochs come from."""
    op.execute(
        """
        CREATE SEQUENCE workorders.kafka_epochs AS bigint;
        CREATE TABLE workorders.kafka_ledger (
            trigger_id integer NOT NULL REFERENCES workorders.triggers (id),
            topic text NOT NULL,
            partition integer NOT NULL,
            topic_id text NOT NULL,
            stream_id integer NOT NULL REFERENCES workorders.source_streams (id),
            start_offset bigint NOT NULL,
            next_offset bigint NOT NULL,
            epoch bigint NOT NULL DEFAULT 0,
            status text NOT NULL DEFAULT 'active',
            status_since timestamptz NOT NULL DEFAULT now(),
            attempts integer NOT NULL DEFAULT 0,
            next_attempt_at timestamptz,
            last_error text,
            mean_message_bytes double precision,
            PRIMARY KEY (trigger_id, topic, partition),
            CONSTRAINT kafka_ledger_offsets_check CHECK (next_offset >= start_offset AND start_offset >= 0),
            CONSTRAINT kafka_ledger_status_check CHECK (status IN ('active', 'stalled'))
        );
        CREATE TABLE workorders.kafka_batches (
            id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            trigger_id integer NOT NULL REFERENCES workorders.triggers (id),
            planned_at timestamptz NOT NULL DEFAULT now(),
            handed_over_at timestamptz,
            epoch bigint NOT NULL DEFAULT 0
        );
        CREATE INDEX kafka_batches_trigger_id_id_idx ON workorders.kafka_batches (trigger_id, id);
        CREATE TABLE workorders.kafka_ranges (
            batch_id bigint NOT NULL REFERENCES workorders.kafka_batches (id),
            topic text NOT NULL,
            partition integer NOT NULL,
            trigger_id integer NOT NULL REFERENCES workorders.triggers (id),
            topic_id text NOT NULL,
            start_offset bigint NOT NULL,
            end_offset bigint NOT NULL,
            finished_at timestamptz,
            created bigint,
            rejected bigint,
            last_error text,
            PRIMARY KEY (batch_id, topic, partition),
            CONSTRAINT kafka_ranges_offsets_check CHECK (start_offset >= 0 AND start_offset < end_offset),
            CONSTRAINT kafka_ranges_finished_check CHECK (
                (finished_at IS NULL) = (created IS NULL) AND (finished_at IS NULL) = (rejected IS NULL)
            )
        );
        CREATE UNIQUE INDEX kafka_ranges_unfinished_idx ON workorders.kafka_ranges (trigger_id, topic, partition)
            WHERE finished_at IS NULL;
        """
    )


def downgrade() -> None:
    """Drop the Kafka room's tables; the work orders stay."""
    op.execute(
        """
        DROP TABLE workorders.kafka_ranges, workorders.kafka_batches, workorders.kafka_ledger;
        DROP SEQUENCE workorders.kafka_epochs;
        """
    )
