"""Bulk jobs that wait say for what: until now only a failed one had a sentence."""

from alembic import op

revision = "core_0010"
down_revision = "outbox_0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Let a waiting job have its sentence.

    From here on a DAG takes what waits or was left. What nobody has come back to for a day is a person's to resume.
    """
    op.execute(
        """
        UPDATE workorders.bulk_jobs
        SET state = 'failed', worker = NULL, error = 'Nobody worked at it when the database was upgraded.'
        WHERE state IN ('waiting', 'running') AND coalesce(seen_at, created_at) < now() - interval '1 day';
        ALTER TABLE workorders.bulk_jobs
            DROP CONSTRAINT bulk_jobs_error_check,
            ADD CONSTRAINT bulk_jobs_error_check
                CHECK (state = 'waiting' OR (state = 'failed') = (error IS NOT NULL));
        """
    )


def downgrade() -> None:
    """Forget what jobs wait for."""
    op.execute("UPDATE workorders.bulk_jobs SET error = NULL WHERE state = 'waiting'")
    op.execute(
        """
        ALTER TABLE workorders.bulk_jobs
            DROP CONSTRAINT bulk_jobs_error_check,
            ADD CONSTRAINT bulk_jobs_error_check CHECK ((state = 'failed') = (error IS NOT NULL));
        """
    )
