-- name: workloads
-- Every number comes from an index of the few work orders that are not yet successful, and ends at a bound. BETWEEN is
-- a fence: with an equality, the planner would look for the first waiting work order from the start of the primary key.
WITH failed AS MATERIALIZED (
    SELECT workflow_id, count(*) AS work_orders
    FROM (
        SELECT workflow_id
        FROM workorders.work_orders
        WHERE state IN ('failed', 'crashed', 'killed', 'lost', 'exception') AND id >= %(first_id)s
        LIMIT %(max_counted)s + 1
    ) AS recent
    GROUP BY workflow_id
), parked AS MATERIALIZED (
    SELECT workflow_id, count(*) AS work_orders
    FROM (
        SELECT workflow_id FROM workorders.work_orders WHERE state = 'parked' LIMIT %(max_counted)s + 1
    ) AS known
    GROUP BY workflow_id
)
SELECT workflows.name AS workflow, workflows.concurrency,
    (
        SELECT count(*)
        FROM workorders.runs
        WHERE runs.workflow_id = workflows.id AND runs.claimed_at IS NOT NULL AND runs.finished_at IS NULL
    ) AS running,
    (
        SELECT count(*)
        FROM (
            SELECT
            FROM workorders.work_orders
            WHERE work_orders.workflow_id = workflows.id AND work_orders.state = 'pending'
            LIMIT %(max_counted)s + 1
        ) AS pending
    ) AS waiting,
    (
        SELECT work_orders.created_at
        FROM workorders.work_orders
        WHERE work_orders.workflow_id BETWEEN workflows.id AND workflows.id AND work_orders.state = 'pending'
        ORDER BY work_orders.workflow_id, work_orders.id
        LIMIT 1
    ) AS oldest_waiting_at,
    coalesce(parked.work_orders, 0) AS parked,
    coalesce(failed.work_orders, 0) AS failed
FROM workorders.workflows
LEFT JOIN failed ON failed.workflow_id = workflows.id
LEFT JOIN parked ON parked.workflow_id = workflows.id
WHERE %(workflow)s::text IS NULL OR workflows.name = %(workflow)s
ORDER BY workflows.name;
