-- name: newest
SELECT max(begins_at), now() FROM workorders.workload_history;

-- name: record
-- Every trigger has a row of the current interval, so that one without work orders is known to have none. Two that record
-- at once lock the rows in one order.
WITH created AS (
    SELECT trigger_id, workflow_id, date_bin(%(interval)s, created_at, 'epoch') AS begins_at, count(*) AS created
    FROM workorders.work_orders
    WHERE id >= %(first_id)s AND created_at >= %(since)s
    GROUP BY trigger_id, workflow_id, begins_at
), waiting AS (
    SELECT coalesce(counts.trigger_id, triggers.id) AS trigger_id,
        coalesce(counts.workflow_id, triggers.workflow_id) AS workflow_id,
        date_bin(%(interval)s, now(), 'epoch') AS begins_at,
        coalesce(sum(counts.work_orders) FILTER (WHERE counts.state = 'pending'), 0)::bigint AS waiting
    FROM workorders.triggers
    FULL JOIN workorders.state_counts AS counts
        ON counts.trigger_id = triggers.id AND counts.workflow_id = triggers.workflow_id
    GROUP BY 1, 2
)
INSERT INTO workorders.workload_history AS known (begins_at, trigger_id, workflow_id, counted_at, created, waiting)
SELECT begins_at, trigger_id, workflow_id, now(), coalesce(created, 0), waiting
FROM created
FULL JOIN waiting USING (begins_at, trigger_id, workflow_id)
ORDER BY begins_at, trigger_id, workflow_id
ON CONFLICT (begins_at, trigger_id, workflow_id) DO UPDATE
SET counted_at = EXCLUDED.counted_at,
    created = EXCLUDED.created,
    waiting = coalesce(EXCLUDED.waiting, known.waiting);

-- name: forget
DELETE FROM workorders.workload_history WHERE begins_at < %(before)s;

-- name: counts
SELECT triggers.name AS trigger, workflows.name AS workflow, counts.begins_at, counts.counted_at, counts.created,
    counts.waiting
FROM workorders.workload_history AS counts
JOIN workorders.triggers ON triggers.id = counts.trigger_id
JOIN workorders.workflows ON workflows.id = counts.workflow_id
WHERE counts.begins_at > %(since)s;
