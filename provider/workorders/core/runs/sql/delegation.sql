-- name: delegated
-- With the attempts before each run, newest first: what did their work may not have ended.
SELECT runs.id, runs.state = 'started',
    extract(epoch FROM statement_timestamp() - coalesce(runs.started_at, runs.claimed_at))::double precision,
    ARRAY(
        SELECT earlier.id FROM workorders.runs AS earlier
        WHERE earlier.work_order_id = runs.work_order_id AND earlier.attempt < runs.attempt
        ORDER BY earlier.attempt DESC
    )
FROM workorders.runs
WHERE runs.workflow_id = %(workflow_id)s
    AND runs.worker_id = %(worker_id)s AND runs.claimed_at IS NOT NULL AND runs.finished_at IS NULL
ORDER BY runs.id;

-- name: is_delegated
SELECT FROM workorders.runs
WHERE id = %(id)s AND worker_id = %(worker_id)s AND state = 'claimed' AND claimed_at IS NOT NULL AND finished_at IS NULL;
