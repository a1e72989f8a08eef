"""Work orders, dataclips, rejections, runs, and the triggers and streams they come from."""

from alembic import op

revision = "core_0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the core's tables."""
    op.execute(
        """
        CREATE TYPE workorders.work_order_state AS ENUM (
            'pending', 'running', 'success', 'failed', 'crashed', 'killed', 'cancelled', 'lost', 'exception', 'rejected'
        );
        CREATE TYPE workorders.run_state AS ENUM (
            'available', 'claimed', 'started', 'success', 'failed', 'crashed', 'cancelled', 'killed', 'lost',
            'exception'
        );
        CREATE TABLE workorders.workflows (
            id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            name text NOT NULL UNIQUE,
            created_at timestamptz NOT NULL DEFAULT now()
        );
        CREATE TABLE workorders.triggers (
            id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            name text NOT NULL UNIQUE,
            type text NOT NULL,
            workflow_id integer NOT NULL REFERENCES workorders.workflows (id),
            definition jsonb NOT NULL,
            created_at timestamptz NOT NULL DEFAULT now(),
            updated_at timestamptz NOT NULL DEFAULT now()
        );
        CREATE TABLE workorders.source_streams (
            id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            trigger_id integer NOT NULL REFERENCES workorders.triggers (id),
            name text NOT NULL,
            UNIQUE (trigger_id, name)
        );
        CREATE TABLE workorders.work_orders (
            id uuid PRIMARY KEY,
            position bigint,
            created_at timestamptz NOT NULL DEFAULT now(),
            trigger_id integer NOT NULL,
            workflow_id integer NOT NULL,
            stream_id integer,
            state workorders.work_order_state NOT NULL,
            UNIQUE (stream_id, position),
            CONSTRAINT work_orders_source_key_check CHECK ((stream_id IS NULL) = (position IS NULL))
        );
        CREATE TABLE workorders.dataclips (
            id uuid PRIMARY KEY,
            body jsonb,
            request jsonb NOT NULL
        );
        CREATE TABLE workorders.rejections (
            work_order_id uuid PRIMARY KEY,
            code text NOT NULL,
            detail text NOT NULL,
            request jsonb NOT NULL,
            raw bytea
        );
        CREATE TABLE workorders.runs (
            id uuid PRIMARY KEY,
            work_order_id uuid NOT NULL REFERENCES workorders.work_orders (id) ON DELETE CASCADE,
            attempt integer NOT NULL,
            state workorders.run_state NOT NULL,
            created_at timestamptz NOT NULL DEFAULT now(),
            claimed_at timestamptz,
            started_at timestamptz,
            finished_at timestamptz,
            error_type text,
            error text,
            UNIQUE (work_order_id, attempt)
        );
        """
    )


def downgrade() -> None:
    """Drop the core's tables, and the work orders in them."""
    op.execute(
        """
        DROP TABLE workorders.runs, workorders.rejections, workorders.dataclips, workorders.work_orders,
            workorders.source_streams, workorders.triggers, workorders.workflows;
        DROP TYPE workorders.run_state, workorders.work_order_state;
        """
    )
