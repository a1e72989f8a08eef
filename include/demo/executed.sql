-- name: unfinished
SELECT count(*) FROM workorders.work_orders WHERE state IN ('pending', 'requeued', 'running');

-- name: states
SELECT state::text, count(*) FROM workorders.work_orders GROUP BY state;

-- name: runs
SELECT count(*) FROM workorders.runs;

-- name: newest
SELECT work_order_id FROM workorders.runs WHERE state = 'success' ORDER BY finished_at DESC LIMIT 1;

-- name: attempts
SELECT state::text FROM workorders.runs WHERE work_order_id = %(work_order_id)s ORDER BY attempt;

-- name: out_of_order
-- First runs only: a rerun is later than the runs that follow it.
SELECT count(*) FROM (
    SELECT runs.started_at < lag(runs.finished_at) OVER (
        PARTITION BY runs.ordering_key ORDER BY work_orders.stream_id, work_orders.position
    ) AS too_early
    FROM workorders.runs JOIN workorders.work_orders ON work_orders.id = runs.work_order_id
    WHERE runs.attempt = 1 AND runs.ordering_key IS NOT NULL
) AS compared
WHERE too_early;

-- name: logs
SELECT log FROM workorders.run_results WHERE log <> '' ORDER BY run_id LIMIT 3;

-- name: alarms
SELECT run_results.output ->> 'id'
FROM workorders.run_results JOIN workorders.runs ON runs.id = run_results.run_id
WHERE runs.state = 'success' AND run_results.output ->> 'assessment' = 'alarming';

-- name: unsent
SELECT count(*) FROM workorders.outbox_messages;
