-- name: summary
-- One scan for all that is shown. The fence keeps the planner from looking for a rare workflow in all runs.
WITH newest AS MATERIALIZED (
    SELECT *
    FROM workorders.runs
    ORDER BY id DESC
    LIMIT %(newest)s
), own AS MATERIALIZED (
    SELECT newest.state, newest.created_at, newest.finished_at, newest.error_type,
        split_part(left(newest.error, 300), E'\n', 1) AS error,
        CASE WHEN started_at IS NOT NULL
            THEN greatest(extract(epoch FROM started_at - greatest(newest.created_at, not_before)), 0)::double precision
        END AS waited,
        CASE WHEN started_at IS NOT NULL THEN extract(epoch FROM finished_at - started_at)::double precision END AS took
    FROM newest
    JOIN workorders.workflows ON workflows.id = newest.workflow_id
    WHERE workflows.name = %(workflow)s
), failures AS (
    SELECT error_type, error, count(*) AS runs, min(finished_at) AS first_at, max(finished_at) AS last_at
    FROM own
    WHERE state IN ('failed', 'crashed', 'killed', 'lost', 'exception') AND finished_at IS NOT NULL
    GROUP BY error_type, error
    ORDER BY runs DESC, last_at DESC
    LIMIT %(limit)s
)
SELECT count(*), min(created_at), percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY waited),
    percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY took),
    (
        SELECT jsonb_agg(to_jsonb(failures) ORDER BY runs DESC, last_at DESC)
        FROM failures
    )
FROM own;

-- name: waiting_keys
-- The run that keeps the others of its key from being claimed the longest is the last of its key in the index: one at work,
-- or one that waits until it is due.
SELECT waiting.ordering_key, waiting.work_orders, waiting.oldest_at, before.work_order_id AS waits_for,
    before.claimed_at IS NOT NULL AS is_running
FROM (
    SELECT workflow_id, ordering_key, count(*) AS work_orders, min(created_at) AS oldest_at
    FROM (
        SELECT work_orders.workflow_id, work_orders.ordering_key, work_orders.created_at
        FROM workorders.work_orders
        JOIN workorders.workflows ON workflows.id = work_orders.workflow_id
        WHERE workflows.name = %(workflow)s AND work_orders.state IN ('pending', 'requeued')
            AND work_orders.ordering_key IS NOT NULL
        LIMIT %(max_waiting)s
    ) AS first
    GROUP BY workflow_id, ordering_key
    ORDER BY work_orders DESC, ordering_key
    LIMIT %(limit)s
) AS waiting
LEFT JOIN LATERAL (
    SELECT runs.work_order_id, runs.claimed_at
    FROM workorders.runs
    WHERE runs.workflow_id = waiting.workflow_id AND runs.ordering_key = waiting.ordering_key AND runs.finished_at IS NULL
        AND CASE WHEN runs.claimed_at IS NULL THEN runs.not_before ELSE 'infinity' END > now()
    ORDER BY CASE WHEN runs.claimed_at IS NULL THEN runs.not_before ELSE 'infinity' END DESC
    LIMIT 1
) AS before ON true
ORDER BY waiting.work_orders DESC, waiting.ordering_key;
