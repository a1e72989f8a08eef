"""Bulk jobs, the full text of work orders, counts by state, and the source keys of deleted work orders."""

from alembic import op

revision = "core_0005"
down_revision = "core_0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables of history, and the index that finds errors among many."""
    op.execute(
        """
        CREATE TABLE workorders.bulk_jobs (
            id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            kind text NOT NULL,
            request_key text UNIQUE,
            filter jsonb NOT NULL,
            options jsonb NOT NULL,
            who text NOT NULL,
            why text NOT NULL,
            state text NOT NULL DEFAULT 'waiting',
            total bigint NOT NULL,
            done bigint NOT NULL DEFAULT 0,
            skipped jsonb NOT NULL DEFAULT '{}',
            last_id uuid,
            worker uuid,
            error text,
            created_at timestamptz NOT NULL DEFAULT now(),
            started_at timestamptz,
            seen_at timestamptz,
            finished_at timestamptz,
            CONSTRAINT bulk_jobs_kind_check CHECK (kind IN ('rerun', 'cancel', 'export')),
            CONSTRAINT bulk_jobs_state_check CHECK (state IN ('waiting', 'running', 'finished', 'failed', 'cancelled')),
            CONSTRAINT bulk_jobs_reason_check CHECK (btrim(who) <> '' AND btrim(why) <> ''),
            CONSTRAINT bulk_jobs_error_check CHECK ((state = 'failed') = (error IS NOT NULL))
        );

        CREATE TABLE workorders.search_words (
            id uuid PRIMARY KEY,
            words tsvector NOT NULL
        );
        -- Words wait in the index's own list until it has 4 MB, and are then merged in one go: many times cheaper than
        -- one by one, and paid for by the filling alone.
        CREATE INDEX search_words_words_idx ON workorders.search_words USING gin (words)
            WITH (fastupdate = on, gin_pending_list_limit = 4096);

        CREATE TABLE workorders.history_marks (
            name text PRIMARY KEY,
            id uuid NOT NULL,
            moved_at timestamptz NOT NULL DEFAULT now()
        );

        CREATE TABLE workorders.state_counts (
            trigger_id integer NOT NULL,
            workflow_id integer NOT NULL,
            state workorders.work_order_state NOT NULL,
            work_orders bigint NOT NULL,
            counted_at timestamptz NOT NULL,
            seconds double precision NOT NULL,
            PRIMARY KEY (trigger_id, workflow_id, state)
        );

        CREATE TABLE workorders.deleted_positions (
            stream_id integer NOT NULL REFERENCES workorders.source_streams (id),
            from_position bigint NOT NULL,
            to_position bigint NOT NULL,
            PRIMARY KEY (stream_id, from_position),
            CONSTRAINT deleted_positions_range_check CHECK (from_position < to_position)
        );

        -- The states that few work orders are in at a time; pending has an index of its own, rejected its table.
        CREATE INDEX work_orders_few_idx ON workorders.work_orders (state, id)
            WHERE state NOT IN ('pending', 'success', 'rejected');
        """
    )


def downgrade() -> None:
    """Forget the jobs, the words, the counts and what was deleted."""
    op.execute(
        """
        DROP INDEX workorders.work_orders_few_idx;
        DROP TABLE workorders.deleted_positions, workorders.state_counts, workorders.history_marks,
            workorders.search_words, workorders.bulk_jobs;
        """
    )
