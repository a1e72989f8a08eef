"""Idempotency keys, sequences with what they park, and the counts behind a workflow's limits."""

from alembic import op

revision = "core_0003"
down_revision = "core_0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables of admission; no work order that is there already has a part in them."""
    op.execute(
        """
        ALTER TYPE workorders.work_order_state ADD VALUE IF NOT EXISTS 'parked';

        CREATE TABLE workorders.idempotency_keys (
            key uuid NOT NULL,
            work_order_id uuid NOT NULL,
            expires_at timestamptz NOT NULL,
            position bigint,
            trigger_id integer NOT NULL,
            stream_id integer,
            PRIMARY KEY (trigger_id, key)
        );
        CREATE INDEX idempotency_keys_expires_at_idx ON workorders.idempotency_keys (expires_at);

        CREATE TABLE workorders.duplicates (
            work_order_id uuid PRIMARY KEY,
            original_id uuid NOT NULL
        );
        CREATE INDEX duplicates_original_id_idx ON workorders.duplicates (original_id);

        CREATE TABLE workorders.sequences (
            key uuid NOT NULL,
            mark bigint,
            parked_since timestamptz,
            wait_until timestamptz,
            alerted_since timestamptz,
            created_at timestamptz NOT NULL DEFAULT now(),
            trigger_id integer NOT NULL,
            parked integer NOT NULL DEFAULT 0,
            name text NOT NULL,
            PRIMARY KEY (trigger_id, key)
        ) WITH (fillfactor = 80);
        CREATE INDEX sequences_gap_idx ON workorders.sequences (trigger_id, key)
            WHERE parked > 0 OR alerted_since IS NOT NULL;

        CREATE TABLE workorders.parked_work_orders (
            work_order_id uuid NOT NULL UNIQUE REFERENCES workorders.work_orders (id) ON DELETE CASCADE,
            key uuid NOT NULL,
            number bigint NOT NULL,
            parked_at timestamptz NOT NULL DEFAULT now(),
            trigger_id integer NOT NULL,
            PRIMARY KEY (trigger_id, key, number)
        );

        CREATE TABLE workorders.sequence_places (
            place bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            work_order_id uuid NOT NULL UNIQUE REFERENCES workorders.work_orders (id) ON DELETE CASCADE,
            key uuid NOT NULL,
            lane bigint NOT NULL,
            trigger_id integer NOT NULL,
            workflow_id integer NOT NULL
        );
        CREATE INDEX sequence_places_key_idx ON workorders.sequence_places (trigger_id, key);
        CREATE INDEX sequence_places_lane_idx ON workorders.sequence_places (workflow_id, lane, place);

        CREATE TABLE workorders.sequence_decisions (
            id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            decided_at timestamptz NOT NULL DEFAULT now(),
            who text NOT NULL,
            why text NOT NULL,
            trigger_id integer NOT NULL,
            key uuid NOT NULL,
            kind text NOT NULL,
            from_mark bigint,
            to_mark bigint,
            released integer NOT NULL,
            CONSTRAINT sequence_decisions_kind_check CHECK (kind IN ('wait', 'skip', 'release', 'drop'))
        );
        CREATE INDEX sequence_decisions_key_idx ON workorders.sequence_decisions (trigger_id, key);

        CREATE TABLE workorders.workflow_counts (
            workflow_id integer PRIMARY KEY,
            day date NOT NULL,
            admitted bigint NOT NULL
        ) WITH (fillfactor = 50);
        """
    )


def downgrade() -> None:
    """Drop the tables of admission; parked work orders wait for a run like any other.

    An enum cannot lose a value, so `parked` stays in the type, unused.
    """
    op.execute(
        """
        UPDATE workorders.work_orders SET state = 'pending'
        WHERE id IN (SELECT work_order_id FROM workorders.parked_work_orders);
        DROP TABLE workorders.workflow_counts, workorders.sequence_decisions, workorders.sequence_places,
            workorders.parked_work_orders, workorders.sequences, workorders.duplicates, workorders.idempotency_keys;
        """
    )
