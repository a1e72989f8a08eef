-- name: finished
-- Those of the work orders that came to an end, with what their newest run says.
SELECT work_orders.id, work_orders.state::text AS state, newest.error_type, newest.error,
    run_outputs.output::text AS output
FROM workorders.work_orders
LEFT JOIN LATERAL (
    SELECT runs.id, runs.error_type, runs.error
    FROM workorders.runs
    WHERE runs.work_order_id = work_orders.id
    ORDER BY runs.attempt DESC
    LIMIT 1
) AS newest ON true
LEFT JOIN workorders.run_outputs ON run_outputs.run_id = newest.id
WHERE work_orders.id = ANY (%(ids)s)
    AND work_orders.state NOT IN ('pending', 'running');
