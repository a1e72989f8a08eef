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
