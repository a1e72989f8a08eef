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

-- name: rerun
-- Two statements in one: a work order is requeued exactly if it has a run that is available. A new generation has no step yet.
WITH given AS (
    SELECT * FROM unnest(%(run_ids)s::uuid[], %(ids)s::uuid[]) AS given (run_id, id)
), waiting AS (
    UPDATE workorders.work_orders
    SET state = 'requeued'
    FROM given
    WHERE work_orders.id = given.id
    RETURNING work_orders.id, work_orders.workflow_id, work_orders.ordering_key, given.run_id
)
INSERT INTO workorders.runs
    (id, work_order_id, workflow_id, ordering_key, attempt, generation, state, priority, actor, reason)
SELECT waiting.run_id, waiting.id, waiting.workflow_id, waiting.ordering_key,
    1 + coalesce(newest.attempt, 0),
    coalesce(newest.generation + (%(from_start)s OR newest.state = 'success')::integer, 1),
    'available', 0, %(actor)s, %(reason)s
FROM waiting
LEFT JOIN LATERAL (
    SELECT attempt, generation, state FROM workorders.runs
    WHERE runs.work_order_id = waiting.id
    ORDER BY attempt DESC
    LIMIT 1
) AS newest ON true
ORDER BY waiting.id;

-- name: cancel
-- A claim locks the run first, then the work order: a run that it has locked is about to start. Work orders without a run get
-- one with the actor and the reason.
WITH available AS MATERIALIZED (
    SELECT id, work_order_id
    FROM workorders.runs
    WHERE work_order_id = ANY (%(requeued)s) AND claimed_at IS NULL AND finished_at IS NULL
    FOR UPDATE SKIP LOCKED
), ended AS (
    UPDATE workorders.runs
    SET state = 'cancelled', finished_at = now(), actor = %(actor)s, reason = %(reason)s
    FROM available
    WHERE runs.id = available.id
), added AS (
    INSERT INTO workorders.runs
        (id, work_order_id, workflow_id, ordering_key, attempt, state, finished_at, actor, reason)
    SELECT given.run_id, work_orders.id, work_orders.workflow_id, work_orders.ordering_key,
        1 + coalesce((SELECT max(attempt) FROM workorders.runs WHERE runs.work_order_id = work_orders.id), 0),
        'cancelled', now(), %(actor)s, %(reason)s
    FROM unnest(%(run_ids)s::uuid[], %(unclaimed)s::uuid[]) AS given (run_id, id)
    JOIN workorders.work_orders ON work_orders.id = given.id
)
UPDATE workorders.work_orders SET state = 'cancelled'
WHERE id = ANY (%(unclaimed)s::uuid[] || ARRAY(SELECT work_order_id FROM available));
