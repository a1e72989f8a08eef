-- name: lock_available
-- A claim locks the run first, then the work order: a run that it has locked is about to start.
SELECT work_order_id
FROM workorders.runs
WHERE work_order_id = ANY (%(ids)s) AND claimed_at IS NULL AND finished_at IS NULL
FOR UPDATE SKIP LOCKED;

-- name: cancel_available
UPDATE workorders.runs
SET state = 'cancelled', finished_at = now(), actor = %(actor)s, reason = %(reason)s
WHERE work_order_id = ANY (%(ids)s) AND claimed_at IS NULL AND finished_at IS NULL;

-- name: cancel_unclaimed
-- The others get a row with the actor and the reason.
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
