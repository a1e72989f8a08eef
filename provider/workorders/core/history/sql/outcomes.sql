-- name: ended
-- Those of the work orders that came to an end.
SELECT id
FROM workorders.work_orders
WHERE id = ANY (%(ids)s)
    AND state NOT IN ('pending', 'running', 'parked');

-- name: outcome
-- A work order that came to an end, with what its newest run says, or why it has none.
SELECT work_orders.id, work_orders.state::text AS state, coalesce(newest.error_type, rejections.code) AS error_type,
    coalesce(newest.error, rejections.detail) AS error,
    workorders.json_shown(run_outputs.output) AS output
FROM workorders.work_orders
LEFT JOIN LATERAL (
    SELECT runs.id, runs.error_type, runs.error
    FROM workorders.runs
    WHERE runs.work_order_id = work_orders.id
    ORDER BY runs.attempt DESC
    LIMIT 1
) AS newest ON true
LEFT JOIN workorders.run_outputs ON run_outputs.run_id = newest.id
LEFT JOIN workorders.rejections ON rejections.work_order_id = work_orders.id
WHERE work_orders.id = %(id)s
    AND work_orders.state NOT IN ('pending', 'running', 'parked');
