-- name: add_worker
INSERT INTO workorders.workers (id, workflow_id, expires_at)
VALUES (%(worker_id)s, %(workflow_id)s, statement_timestamp() + make_interval(secs => %(grace_seconds)s))
ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at WHERE workers.expires_at IS NOT NULL;

-- name: lock_worker
-- The weakest lock that excludes recovery. The heartbeat's own update does not conflict with it.
SELECT FROM workorders.workers WHERE id = %(worker_id)s FOR KEY SHARE;

-- name: record_heartbeat
UPDATE workorders.workers SET expires_at = statement_timestamp() + make_interval(secs => %(grace_seconds)s)
WHERE id = %(worker_id)s;

-- name: remove_worker
DELETE FROM workorders.workers
WHERE id = %(worker_id)s AND NOT EXISTS (
    SELECT FROM workorders.runs
    WHERE runs.workflow_id = workers.workflow_id AND runs.worker_id = workers.id
        AND claimed_at IS NOT NULL AND finished_at IS NULL
);

-- name: lock_expired_worker
SELECT id, workflow_id FROM workorders.workers
WHERE (%(workflow_id)s::integer IS NULL OR workflow_id = %(workflow_id)s) AND (
    expires_at < statement_timestamp()
    -- The owner of delegated runs of a workflow that has a callable by now: nothing records their ends any more.
    OR expires_at IS NULL AND NOT EXISTS (
        SELECT FROM workorders.workflows
        WHERE workflows.id = workers.workflow_id AND definition ->> 'dag_id' IS NOT NULL
    )
)
ORDER BY id
LIMIT 1
FOR UPDATE SKIP LOCKED;
