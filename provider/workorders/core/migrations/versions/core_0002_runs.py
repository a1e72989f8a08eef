"""Runs that can be claimed, workflows that say how, and lanes that keep an order."""

from alembic import op

revision = "core_0002"
down_revision = "outbox_0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add what claiming, retrying and finding lost runs needs.

    No index names the state of a run, for then no update of a state could stay on its page (a HOT update): an index
    tells an available run from one at work by its times.
    """
    op.execute(
        """
        ALTER TABLE workorders.workflows
            ADD COLUMN definition jsonb NOT NULL DEFAULT '{}',
            ADD COLUMN concurrency integer,
            ADD COLUMN updated_at timestamptz NOT NULL DEFAULT now(),
            ADD CONSTRAINT workflows_concurrency_check CHECK (concurrency > 0);

        ALTER TABLE workorders.work_orders ADD COLUMN lane bigint;
        CREATE INDEX work_orders_waiting_idx ON workorders.work_orders (workflow_id, id) WHERE state = 'pending';
        CREATE INDEX work_orders_lane_idx ON workorders.work_orders (workflow_id, lane, position, id)
            WHERE state = 'pending' AND lane IS NOT NULL;

        DROP TABLE workorders.runs;
        CREATE TABLE workorders.runs (
            id uuid PRIMARY KEY,
            work_order_id uuid NOT NULL,
            group_id uuid,
            lane bigint,
            created_at timestamptz NOT NULL DEFAULT now(),
            not_before timestamptz NOT NULL DEFAULT now(),
            claimed_at timestamptz,
            started_at timestamptz,
            heartbeat_at timestamptz,
            finished_at timestamptz,
            workflow_id integer NOT NULL,
            attempt integer NOT NULL,
            state workorders.run_state NOT NULL,
            priority smallint NOT NULL DEFAULT 1,
            retry smallint NOT NULL DEFAULT 0,
            error_type text,
            error text,
            requested_by text,
            why text,
            UNIQUE (work_order_id, attempt)
        ) WITH (fillfactor = 70);
        CREATE INDEX runs_available_idx ON workorders.runs (workflow_id, priority, not_before, id)
            WHERE claimed_at IS NULL AND finished_at IS NULL;
        CREATE INDEX runs_at_work_idx ON workorders.runs (workflow_id, group_id)
            WHERE claimed_at IS NOT NULL AND finished_at IS NULL;
        CREATE INDEX runs_lane_idx ON workorders.runs (workflow_id, lane, not_before)
            WHERE claimed_at IS NULL AND finished_at IS NULL AND lane IS NOT NULL;

        CREATE TABLE workorders.run_outputs (
            run_id uuid PRIMARY KEY,
            output jsonb NOT NULL
        );
        CREATE TABLE workorders.run_logs (
            run_id uuid PRIMARY KEY,
            log text NOT NULL,
            truncated boolean NOT NULL
        );
        """
    )


def downgrade() -> None:
    """Take the runs, their outputs and their logs away, and bring the empty table of before back."""
    op.execute(
        """
        DROP TABLE workorders.run_logs, workorders.run_outputs, workorders.runs;
        DROP INDEX workorders.work_orders_lane_idx, workorders.work_orders_waiting_idx;
        ALTER TABLE workorders.work_orders DROP COLUMN lane;
        ALTER TABLE workorders.workflows DROP COLUMN updated_at, DROP COLUMN concurrency, DROP COLUMN definition;
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
