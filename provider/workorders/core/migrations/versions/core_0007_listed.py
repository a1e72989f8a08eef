"""The words of a work order know its trigger and its workflow, so that rare ones are found among very many."""

from alembic import op

revision = "core_0007"
down_revision = "core_0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table of words anew; what it holds is derived, and is filled again behind the ingest."""
    op.execute(
        """
        DROP TABLE workorders.search_words;
        DELETE FROM workorders.history_marks WHERE name IN ('words', 'words-again');

        CREATE TABLE workorders.search_words (
            id uuid PRIMARY KEY,
            trigger_id integer NOT NULL,
            workflow_id integer NOT NULL,
            words tsvector NOT NULL
        );
        -- Newest first within a trigger or a workflow. On the work orders themselves the ingest would pay for them.
        CREATE INDEX search_words_trigger_idx ON workorders.search_words (trigger_id, id);
        CREATE INDEX search_words_workflow_idx ON workorders.search_words (workflow_id, id);
        -- Words wait in the index's own list until it has 4 MB, and are then merged in one go: many times cheaper than
        -- one by one, and paid for by the filling alone.
        CREATE INDEX search_words_words_idx ON workorders.search_words USING gin (words)
            WITH (fastupdate = on, gin_pending_list_limit = 4096);
        """
    )


def downgrade() -> None:
    """Make the table of words as it was; it is filled again as well."""
    op.execute(
        """
        DROP TABLE workorders.search_words;
        DELETE FROM workorders.history_marks WHERE name IN ('words', 'words-again');

        CREATE TABLE workorders.search_words (
            id uuid PRIMARY KEY,
            words tsvector NOT NULL
        );
        CREATE INDEX search_words_words_idx ON workorders.search_words USING gin (words)
            WITH (fastupdate = on, gin_pending_list_limit = 4096);
        """
    )
