-- name: lock
-- One that is locked is being claimed, finished or deleted at this moment. To wait for it with others in hand could
-- end in a deadlock.
SELECT work_orders.id, work_orders.workflow_id, work_orders.state::text AS state,
    dataclips.body IS NOT NULL OR rejections.raw IS NOT NULL OR rejections.request <> '{}' AS has_input
FROM workorders.work_orders
LEFT JOIN workorders.dataclips ON dataclips.id = work_orders.id
LEFT JOIN workorders.rejections ON rejections.work_order_id = work_orders.id
WHERE work_orders.id = ANY (%(ids)s)
ORDER BY work_orders.id
FOR UPDATE OF work_orders SKIP LOCKED;

-- name: rerun
-- Two statements in one: a work order is waiting exactly if a run of it can be claimed.
WITH given AS (
    SELECT * FROM unnest(%(run_ids)s::uuid[], %(ids)s::uuid[]) AS given (run_id, id)
), waiting AS (
    UPDATE workorders.work_orders
    SET state = 'pending'
    FROM given
    WHERE work_orders.id = given.id
    RETURNING work_orders.id, work_orders.workflow_id, work_orders.ordering_key, given.run_id
)
INSERT INTO workorders.runs (id, work_order_id, workflow_id, ordering_key, attempt, state, priority, actor, reason)
SELECT waiting.run_id, waiting.id, waiting.workflow_id, waiting.ordering_key,
    1 + coalesce((SELECT max(attempt) FROM workorders.runs WHERE runs.work_order_id = waiting.id), 0),
    'available', 0, %(actor)s, %(reason)s
FROM waiting
ORDER BY waiting.id;

-- name: available
-- Runs that wait and have a row: reruns and retries.
SELECT id, work_order_id
FROM workorders.runs
WHERE work_order_id = ANY (%(ids)s) AND claimed_at IS NULL AND finished_at IS NULL;

-- name: lock_available
-- A claim locks the run first, then the work order: whom it holds is as good as running.
SELECT work_order_id
FROM workorders.runs
WHERE id = ANY (%(run_ids)s) AND claimed_at IS NULL AND finished_at IS NULL
FOR UPDATE SKIP LOCKED;

-- name: cancel_available
UPDATE workorders.runs
SET state = 'cancelled', finished_at = now(), actor = %(actor)s, reason = %(reason)s
WHERE work_order_id = ANY (%(ids)s) AND claimed_at IS NULL AND finished_at IS NULL;

-- name: cancel_unclaimed
-- The others get a row that says who cancelled them, and why.
INSERT INTO workorders.runs
    (id, work_order_id, workflow_id, ordering_key, attempt, state, finished_at, actor, reason)
SELECT given.run_id, work_orders.id, work_orders.workflow_id, work_orders.ordering_key,
    1 + coalesce((SELECT max(attempt) FROM workorders.runs WHERE runs.work_order_id = work_orders.id), 0),
    'cancelled', now(), %(actor)s, %(reason)s
FROM unnest(%(run_ids)s::uuid[], %(ids)s::uuid[]) AS given (run_id, id)
JOIN workorders.work_orders ON work_orders.id = given.id
ORDER BY work_orders.id;

-- name: cancel_work_orders
UPDATE workorders.work_orders SET state = 'cancelled' WHERE id = ANY (%(ids)s);

-- name: rejected
SELECT rejections.work_order_id AS id, rejections.raw, rejections.request::text AS request, rejections.code,
    rejections.detail, triggers.name AS trigger, triggers.type, triggers.definition, source_streams.name AS stream,
    work_orders.stream_id, work_orders.position
FROM workorders.rejections
JOIN workorders.work_orders ON work_orders.id = rejections.work_order_id
JOIN workorders.triggers ON triggers.id = work_orders.trigger_id
LEFT JOIN workorders.source_streams ON source_streams.id = work_orders.stream_id
WHERE rejections.work_order_id = ANY (%(ids)s)
ORDER BY rejections.work_order_id;

-- name: insert_dataclip
INSERT INTO workorders.dataclips (id, body, request) VALUES (%(id)s, %(body)s::text::jsonb, %(request)s::text::jsonb);

-- name: delete_rejection
DELETE FROM workorders.rejections WHERE work_order_id = %(id)s;

-- name: let_in
UPDATE workorders.work_orders
SET state = 'pending', ordering_key = given.ordering_key
FROM unnest(%(ids)s::uuid[], %(ordering_keys)s::bigint[]) AS given (id, ordering_key)
WHERE work_orders.id = given.id;

-- name: pending
SELECT id FROM workorders.work_orders WHERE id = ANY (%(ids)s) AND state = 'pending' ORDER BY id;

-- name: update_rejection
UPDATE workorders.rejections
SET code = %(code)s, detail = %(detail)s
WHERE work_order_id = %(id)s AND (code, detail) IS DISTINCT FROM (%(code)s, %(detail)s);
