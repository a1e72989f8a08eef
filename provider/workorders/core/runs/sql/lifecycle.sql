-- name: start
UPDATE workorders.runs
SET state = 'started',
    started_at = coalesce(started_at, CASE WHEN NOT %(begin_later)s::boolean THEN statement_timestamp() END)
WHERE id = ANY (%(ids)b) AND worker_id = %(worker_id)s AND state IN ('claimed', 'started')
RETURNING id;

-- name: release
WITH released AS (
    UPDATE workorders.runs
    SET state = 'available', worker_id = NULL, claimed_at = NULL, started_at = NULL
    WHERE id = ANY (%(ids)b::uuid[]) AND worker_id = %(worker_id)s AND claimed_at IS NOT NULL AND finished_at IS NULL
    RETURNING work_order_id
)
UPDATE workorders.work_orders SET state = 'requeued' FROM released WHERE work_orders.id = released.work_order_id;

-- name: owned
SELECT id, state = 'started' FROM workorders.runs
WHERE workflow_id = %(workflow_id)s AND worker_id = %(worker_id)s AND claimed_at IS NOT NULL AND finished_at IS NULL;
