-- block: newest
-- The fence keeps the planner from looking for a rare workflow in all runs.
WITH newest AS MATERIALIZED (
    SELECT workflow_id, state::text AS state, created_at, not_before, started_at, finished_at, error_type,
        left(error, 300) AS error
    FROM workorders.runs
    ORDER BY id DESC
    LIMIT %(newest)s
), own AS (
    SELECT newest.*
    FROM newest
    JOIN workorders.workflows ON workflows.id = newest.workflow_id
    WHERE workflows.name = %(workflow)s
)

-- name: durations
-- use: newest
SELECT count(*), min(created_at),
    percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (
        ORDER BY greatest(extract(epoch FROM started_at - greatest(created_at, not_before)), 0)
    ) FILTER (WHERE started_at IS NOT NULL),
    percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY extract(epoch FROM finished_at - started_at))
        FILTER (WHERE started_at IS NOT NULL AND finished_at IS NOT NULL)
FROM own;

-- name: by_hour
-- use: newest
SELECT state, floor(extract(epoch FROM %(now)s - created_at) / 3600)::integer AS hours_ago, count(*)
FROM own
WHERE created_at <= %(now)s AND created_at > %(now)s - %(hours)s * interval '1 hour'
GROUP BY state, hours_ago;

-- name: failures
-- use: newest
SELECT error_type, split_part(error, E'\n', 1) AS error, count(*) AS runs, min(finished_at) AS first_at,
    max(finished_at) AS last_at
FROM own
WHERE state IN ('failed', 'crashed', 'killed', 'lost', 'exception') AND finished_at IS NOT NULL
GROUP BY 1, 2
ORDER BY runs DESC, last_at DESC
LIMIT %(limit)s;

-- name: waiting_keys
SELECT ordering_key, count(*) AS work_orders, min(created_at) AS oldest_at
FROM (
    SELECT work_orders.ordering_key, work_orders.created_at
    FROM workorders.work_orders
    JOIN workorders.workflows ON workflows.id = work_orders.workflow_id
    WHERE workflows.name = %(workflow)s AND work_orders.state = 'pending' AND work_orders.ordering_key IS NOT NULL
    LIMIT %(max_waiting)s
) AS waiting
GROUP BY ordering_key
ORDER BY work_orders DESC, ordering_key
LIMIT %(limit)s;
