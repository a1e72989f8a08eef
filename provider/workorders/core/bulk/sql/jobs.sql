-- name: insert_job
INSERT INTO workorders.bulk_jobs (kind, filter, options, actor, reason, total, account)
VALUES (%(kind)s, %(filter)s, %(options)s, %(actor)s, %(reason)s, %(total)s, %(account)s)
RETURNING id;

-- name: jobs
SELECT id, kind, filter, options, actor, account, reason, state, total, done, skipped, last_id, error, created_at, started_at,
    heartbeat_at, finished_at
FROM workorders.bulk_jobs
WHERE (%(id)s::bigint IS NULL OR id = %(id)s) AND (%(before)s::bigint IS NULL OR id < %(before)s)
ORDER BY id DESC
LIMIT %(limit)s;

-- name: claim_job
-- A worker that is silent for longer than a step can take is assumed dead; if it is alive, it has lost the job.
UPDATE workorders.bulk_jobs
SET state = 'running', worker = %(worker)s, error = NULL, heartbeat_at = now(), started_at = coalesce(started_at, now())
WHERE id = %(id)s
    AND (state IN ('waiting', 'failed') OR (state = 'running' AND heartbeat_at < now() - %(silence)s::interval));

-- name: lock_job
SELECT id
FROM workorders.bulk_jobs
WHERE id = %(id)s AND state = 'running' AND worker = %(worker)s
FOR UPDATE;

-- name: lock_work_orders
-- A locked work order is being claimed, finished or deleted at this moment. To wait for it while others are locked
-- could end in a deadlock.
SELECT work_orders.id, work_orders.workflow_id, work_orders.state::text AS state,
    dataclips.body IS NOT NULL OR rejections.raw IS NOT NULL OR rejections.request <> '{}' AS has_input
FROM workorders.work_orders
LEFT JOIN workorders.dataclips ON dataclips.id = work_orders.id
LEFT JOIN workorders.rejections ON rejections.work_order_id = work_orders.id
WHERE work_orders.id = ANY (%(ids)s)
ORDER BY work_orders.id
FOR UPDATE OF work_orders SKIP LOCKED;

-- name: record_progress
UPDATE workorders.bulk_jobs
SET done = %(done)s, skipped = %(skipped)s, last_id = %(last_id)s, heartbeat_at = now()
WHERE id = %(id)s;

-- name: leave_job
UPDATE workorders.bulk_jobs
SET state = %(state)s, error = %(error)s, heartbeat_at = now(),
    finished_at = CASE WHEN %(state)s <> 'waiting' THEN now() END
WHERE id = %(id)s AND state = 'running' AND worker = %(worker)s;

-- name: cancel_job
UPDATE workorders.bulk_jobs
SET state = 'cancelled', error = NULL, finished_at = now()
WHERE id = %(id)s AND state IN ('waiting', 'running', 'failed');

-- name: orphaned_jobs
-- A command that creates a job claims it at once; one that waits after an outage reported when it began to wait.
SELECT id
FROM workorders.bulk_jobs
WHERE (state = 'waiting' AND coalesce(heartbeat_at, created_at) < now() - %(beginning)s::interval)
    OR (state = 'running' AND heartbeat_at < now() - %(silence)s::interval)
ORDER BY id;
