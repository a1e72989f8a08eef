-- name: unfinished_runs
-- Unfinished runs that their work order, their own times, or the workers contradict. No recovery finds a run whose worker
-- has no row.
SELECT workflows.name, concat(
    'Run ', runs.id, ' is ', runs.state, CASE WHEN claimed_at IS NOT NULL THEN ' and claimed' END, ', its work order is ',
    coalesce(work_orders.state::text, 'missing'),
    CASE WHEN claimed_at IS NOT NULL AND workers.id IS NULL THEN ', and its worker has no row in the table workers' END, '.'
)
FROM workorders.runs
JOIN workorders.workflows ON workflows.id = runs.workflow_id
LEFT JOIN workorders.work_orders ON work_orders.id = runs.work_order_id
LEFT JOIN workorders.workers ON workers.id = runs.worker_id
WHERE finished_at IS NULL
    AND (
        runs.state NOT IN ('available', 'claimed', 'started')
        OR (runs.state = 'available') <> (claimed_at IS NULL)
        OR claimed_at IS NOT NULL AND workers.id IS NULL
        OR work_orders.state IS DISTINCT FROM (
            CASE WHEN claimed_at IS NULL THEN 'requeued' ELSE 'running' END
        )::workorders.work_order_state
    )
ORDER BY runs.id
LIMIT %(limit)s;

-- name: without_run
-- Work orders that wait for a run that does not exist.
SELECT workflows.name, concat('Work order ', work_orders.id, ' is ', work_orders.state, ', and has no unfinished run.')
FROM workorders.work_orders
JOIN workorders.workflows ON workflows.id = work_orders.workflow_id
WHERE work_orders.state IN ('requeued', 'running')
    AND NOT EXISTS (
        SELECT FROM workorders.runs WHERE runs.work_order_id = work_orders.id AND runs.finished_at IS NULL
    )
ORDER BY work_orders.id
LIMIT %(limit)s;

-- name: sequences
-- The number of parked work orders of a sequence, and what it counts.
SELECT workflows.name, concat(
    'Sequence ', sequences.key, ' of trigger ', triggers.name, ' counts ', sequences.parked, ' parked work orders of ',
    count(parked.work_order_id), '.'
)
FROM workorders.sequences
JOIN workorders.triggers ON triggers.id = sequences.trigger_id
JOIN workorders.workflows ON workflows.id = triggers.workflow_id
LEFT JOIN workorders.parked_work_orders AS parked
    ON (parked.trigger_id, parked.key) = (sequences.trigger_id, sequences.key)
WHERE sequences.parked > 0 OR sequences.alerted_since IS NOT NULL
GROUP BY sequences.trigger_id, sequences.key, triggers.name, workflows.name, sequences.parked
HAVING sequences.parked <> count(parked.work_order_id)
ORDER BY sequences.key
LIMIT %(limit)s;

-- name: parts
-- From one id on: work orders whose input or rejection is missing, or whose last run ended in another state; and inputs and
-- rejections without a work order.
WITH orders AS MATERIALIZED (
    SELECT id, state, workflow_id FROM workorders.work_orders WHERE id >= %(from)s ORDER BY id LIMIT %(window)s
), inputs AS MATERIALIZED (
    SELECT id FROM workorders.dataclips WHERE id >= %(from)s ORDER BY id LIMIT %(window)s
), refused AS MATERIALIZED (
    SELECT work_order_id AS id FROM workorders.rejections WHERE work_order_id >= %(from)s ORDER BY 1 LIMIT %(window)s
)
SELECT workflows.name, concat('Work order ', orders.id, ' is ', orders.state, ', and its input or rejection does not match.')
FROM orders
JOIN workorders.workflows ON workflows.id = orders.workflow_id
LEFT JOIN workorders.dataclips ON dataclips.id = orders.id
LEFT JOIN workorders.rejections ON rejections.work_order_id = orders.id
WHERE (orders.state = 'rejected', orders.state <> 'rejected')
    <> (rejections.work_order_id IS NOT NULL, dataclips.id IS NOT NULL)
UNION ALL
SELECT workflows.name, concat(
    'Work order ', orders.id, ' is ', orders.state, ', and its last run is ', coalesce(last.state::text, 'missing'), '.'
)
FROM orders
JOIN workorders.workflows ON workflows.id = orders.workflow_id
LEFT JOIN LATERAL (
    SELECT runs.state FROM workorders.runs WHERE runs.work_order_id = orders.id ORDER BY attempt DESC LIMIT 1
) AS last ON true
WHERE orders.state IN ('success', 'failed', 'crashed', 'killed', 'lost', 'exception')
    AND last.state::text IS DISTINCT FROM orders.state::text
UNION ALL
SELECT NULL, concat('Input ', id, ' belongs to no work order.')
FROM inputs WHERE NOT EXISTS (SELECT FROM workorders.work_orders WHERE work_orders.id = inputs.id)
UNION ALL
SELECT NULL, concat('Rejection ', id, ' belongs to no work order.')
FROM refused WHERE NOT EXISTS (SELECT FROM workorders.work_orders WHERE work_orders.id = refused.id)
LIMIT %(limit)s;

-- name: ends
-- The first and the last id; they grow with time.
SELECT (SELECT id FROM workorders.work_orders ORDER BY id LIMIT 1),
    (SELECT id FROM workorders.work_orders ORDER BY id DESC LIMIT 1);

-- name: write_report
INSERT INTO workorders.last_audit (report) VALUES (%(report)s::text::jsonb)
ON CONFLICT (id) DO UPDATE SET report = EXCLUDED.report;

-- name: read_report
SELECT report::text FROM workorders.last_audit;
