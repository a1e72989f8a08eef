-- block: running
-- Runs of the owner of delegated runs, which does not expire, and of workers that have not expired.
    (
        SELECT count(*) FROM workorders.workers
        JOIN workorders.runs ON runs.workflow_id = workers.workflow_id AND runs.worker_id = workers.id
        WHERE workers.workflow_id = workflows.id AND runs.claimed_at IS NOT NULL AND runs.finished_at IS NULL
            AND (workers.expires_at IS NULL OR workers.expires_at > statement_timestamp())
    )

-- name: ended
-- Of the newest runs, because no index leads to those that ended in a time. If all of them are younger than that time, the
-- oldest begins the time that they cover.
WITH newest AS MATERIALIZED (
    SELECT workflow_id, created_at, finished_at FROM workorders.runs ORDER BY id DESC LIMIT %(newest)s
), covered AS (
    SELECT CASE WHEN count(*) < %(newest)s THEN %(since)s ELSE greatest(min(created_at), %(since)s) END AS since
    FROM newest
)
SELECT workflows.name, count(*) * 60 / extract(epoch FROM %(now)s - covered.since)::double precision
FROM newest
CROSS JOIN covered
JOIN workorders.workflows ON workflows.id = newest.workflow_id
WHERE newest.finished_at > covered.since AND covered.since < %(now)s
GROUP BY workflows.name, covered.since;

-- block: oldest_waiting_at
        -- Since when a worker could have claimed the first work order of the workflow that waits.
        SELECT min(since)
        FROM (
            (
                SELECT work_orders.created_at AS since
                FROM workorders.work_orders
                WHERE work_orders.workflow_id BETWEEN workflows.id AND workflows.id AND work_orders.state = 'pending'
                ORDER BY work_orders.workflow_id, work_orders.id
                LIMIT 1
            ) UNION ALL (
                SELECT due.not_before
                FROM (VALUES (0), (1)) AS urgency (priority)
                CROSS JOIN LATERAL (
                    SELECT runs.not_before
                    FROM workorders.runs
                    WHERE runs.workflow_id = workflows.id AND runs.priority = urgency.priority
                        AND runs.claimed_at IS NULL AND runs.finished_at IS NULL AND runs.not_before <= now()
                    ORDER BY runs.not_before
                    LIMIT 1
                ) AS due
            )
        ) AS first

-- name: workloads
-- Every number comes from an index that begins with the workflow, and ends at a bound, which each workflow has for
-- itself. BETWEEN is a fence: with an equality, the planner would look for the first waiting work order from the start
-- of the primary key.
SELECT workflows.name AS workflow, workflows.concurrency, counts.pending, counts.requeued, counts.parked, counts.failed,
    -- use: running
    AS running,
    (
        -- use: oldest_waiting_at
    ) AS oldest_waiting_at
FROM workorders.workflows
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE state = 'pending') AS pending, count(*) FILTER (WHERE state = 'requeued') AS requeued,
        count(*) FILTER (WHERE state = 'parked') AS parked,
        count(*) FILTER (WHERE state NOT IN ('pending', 'requeued', 'parked')) AS failed
    FROM (
        (SELECT state FROM workorders.work_orders WHERE workflow_id = workflows.id AND state = 'pending'
            LIMIT %(max_counted)s + 1)
        UNION ALL
        (SELECT state FROM workorders.work_orders WHERE workflow_id = workflows.id AND state = 'requeued'
            LIMIT %(max_counted)s + 1)
        UNION ALL
        (SELECT state FROM workorders.work_orders WHERE workflow_id = workflows.id AND state = 'parked'
            LIMIT %(max_counted)s + 1)
        UNION ALL
        (SELECT state FROM workorders.work_orders
            WHERE workflow_id = workflows.id AND state IN ('failed', 'crashed', 'killed', 'lost', 'exception')
                AND work_orders.id >= %(first_id)s
            LIMIT %(max_counted)s + 1)
    ) AS bounded
) AS counts
WHERE %(workflow)s::text IS NULL OR workflows.name = %(workflow)s
ORDER BY workflows.name;

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
SELECT count(*), min(created_at),
    coalesce(percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY waited), '{NULL,NULL,NULL}'),
    coalesce(percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY took), '{NULL,NULL,NULL}'),
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
