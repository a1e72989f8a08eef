-- name: recount
-- The clock is read when all are counted.
INSERT INTO workorders.state_counts (trigger_id, workflow_id, state, work_orders, counted_at, seconds)
SELECT trigger_id, workflow_id, state, count(*), now(),
    extract(epoch FROM clock_timestamp() - statement_timestamp())::double precision
FROM workorders.work_orders
GROUP BY trigger_id, workflow_id, state;

-- name: lock
LOCK TABLE workorders.state_counts IN SHARE ROW EXCLUSIVE MODE;

-- name: forget
DELETE FROM workorders.state_counts;

-- name: age
SELECT extract(epoch FROM now() - max(counted_at))::double precision, max(seconds) FROM workorders.state_counts;

-- name: counts
SELECT state::text AS state, sum(work_orders)::bigint
FROM workorders.state_counts
WHERE %(workflow)s::text IS NULL OR workflow_id = (SELECT id FROM workorders.workflows WHERE name = %(workflow)s)
GROUP BY state
ORDER BY state;

-- name: counted_at
SELECT max(counted_at) FROM workorders.state_counts;
