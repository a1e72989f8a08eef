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
