-- name: last_output
-- The newest success before that time: read backwards by the source key, so the runs that failed since are all it costs.
SELECT workorders.json_shown(run_results.output)
FROM workorders.work_orders
JOIN workorders.runs ON runs.work_order_id = work_orders.id AND runs.state = 'success'
JOIN workorders.run_results ON run_results.run_id = runs.id
WHERE work_orders.stream_id = %(stream_id)s
    AND work_orders.position < %(before)s
    AND work_orders.state = 'success'
    AND run_results.output IS NOT NULL
ORDER BY work_orders.position DESC, runs.attempt DESC
LIMIT 1;

-- name: expired
SELECT kept_days
FROM workorders.workflows
WHERE id = %(workflow_id)s AND %(time)s::timestamptz <= clock_timestamp() - kept_days * interval '1 day';
