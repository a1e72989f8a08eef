-- name: recount
SELECT trigger_id, workflow_id, state::text AS state, count(*)
FROM workorders.work_orders
GROUP BY trigger_id, workflow_id, state;

-- name: lock
LOCK TABLE workorders.state_counts IN SHARE ROW EXCLUSIVE MODE;

-- name: forget
DELETE FROM workorders.state_counts;

-- name: write
INSERT INTO workorders.state_counts (trigger_id, workflow_id, state, work_orders, counted_at, seconds)
SELECT trigger_id, workflow_id, state, work_orders, now(), %(seconds)s
FROM unnest(
    %(trigger_ids)s::integer[], %(workflow_ids)s::integer[], %(states)s::workorders.work_order_state[],
    %(counts)s::bigint[]
) AS given (trigger_id, workflow_id, state, work_orders);

-- name: age
SELECT extract(epoch FROM now() - max(counted_at))::double precision, max(seconds) FROM workorders.state_counts;

-- name: counts
SELECT state::text AS state, sum(work_orders)::bigint
FROM workorders.state_counts
WHERE (%(trigger_id)s::integer IS NULL OR trigger_id = %(trigger_id)s)
    AND (%(workflow_id)s::integer IS NULL OR workflow_id = %(workflow_id)s)
GROUP BY state
ORDER BY state;

-- name: counted_at
SELECT max(counted_at) FROM workorders.state_counts;
