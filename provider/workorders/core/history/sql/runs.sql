-- block: row
-- A line of a list. When a run began is stored with its end; until then it has begun about when it was claimed.
    runs.id, runs.work_order_id, workflows.name AS workflow, runs.attempt, runs.generation, runs.state::text AS state,
    runs.claimed_at IS NOT NULL AND runs.finished_at IS NULL
        AND (workers.id IS NULL OR coalesce(workers.expires_at < statement_timestamp(), false)) AS is_owner_gone,
    runs.created_at, runs.not_before, runs.claimed_at,
    CASE WHEN runs.state = 'started' AND workers.expires_at >= statement_timestamp()
        THEN coalesce(runs.started_at, runs.claimed_at) ELSE runs.started_at END AS started_at,
    runs.finished_at, runs.error_type, runs.error, runs.actor, runs.reason
FROM workorders.runs
JOIN workorders.workflows ON workflows.id = runs.workflow_id
LEFT JOIN workorders.workers ON workers.id = runs.worker_id

-- name: runs
-- Newest first, by the primary key: a page of a rare workflow or state reads many runs of others. The runs of one work
-- order are found by their unique key.
SELECT
    -- use: row
WHERE (%(workflow_id)s::integer IS NULL OR runs.workflow_id = %(workflow_id)s)
    AND (%(state)s::workorders.run_state IS NULL OR runs.state = %(state)s)
    AND (%(work_order_id)s::uuid IS NULL OR runs.work_order_id = %(work_order_id)s)
    AND (%(before)s::uuid IS NULL OR runs.id < %(before)s)
ORDER BY runs.id DESC
LIMIT %(limit)s;

-- name: run
-- The fence keeps the planner from writing a large output out twice.
SELECT workers.expires_at, runs.worker_id, runs.retry,
    left(texts.output, %(max_characters)s) AS output, octet_length(texts.output) AS output_bytes,
    texts.log, coalesce(octet_length(run_results.log) > octet_length(texts.log), false) AS has_earlier_log,
    coalesce(run_results.log_truncated, false) AS log_truncated,
    -- use: row
LEFT JOIN workorders.run_results ON run_results.run_id = runs.id
CROSS JOIN LATERAL (
    SELECT workorders.json_shown(run_results.output, true) AS output,
        nullif(right(run_results.log, %(max_characters)s), '') AS log
    OFFSET 0
) AS texts
WHERE runs.id = %(id)s;

-- name: outcome
-- A work order that has ended, with the result of its newest run, or the reason why it has none.
SELECT work_orders.id, work_orders.state::text AS state, coalesce(newest.error_type, rejections.code) AS error_type,
    coalesce(newest.error, rejections.detail) AS error,
    workorders.json_shown(run_results.output) AS output
FROM workorders.work_orders
LEFT JOIN LATERAL (
    SELECT runs.id, runs.error_type, runs.error
    FROM workorders.runs
    WHERE runs.work_order_id = work_orders.id
    ORDER BY runs.attempt DESC
    LIMIT 1
) AS newest ON true
LEFT JOIN workorders.run_results ON run_results.run_id = newest.id
LEFT JOIN workorders.rejections ON rejections.work_order_id = work_orders.id
WHERE work_orders.id = %(id)s
    AND work_orders.state NOT IN ('pending', 'requeued', 'running', 'parked');

-- name: last_runs
SELECT newest.*
FROM unnest(%(ids)s::uuid[]) AS given (id)
CROSS JOIN LATERAL (
    SELECT
        -- use: row
    WHERE runs.work_order_id = given.id
    ORDER BY runs.attempt DESC
    LIMIT %(limit)s
) AS newest
ORDER BY newest.work_order_id, newest.attempt;

-- name: steps
-- Of a work order, or what it had finished when one of its runs ended. The fence keeps the planner from writing a large
-- result out twice.
SELECT steps.name, steps.generation, steps.run_id, runs.attempt, steps.finished_at, steps.committed_elsewhere,
    left(texts.result, %(max_characters)s) AS result, octet_length(texts.result) AS result_bytes
FROM workorders.steps
JOIN workorders.runs ON runs.id = steps.run_id
CROSS JOIN LATERAL (
    SELECT workorders.json_shown(steps.result) AS result
    OFFSET 0
) AS texts
WHERE steps.work_order_id = %(work_order_id)s
    AND (%(generation)s::integer IS NULL OR steps.generation = %(generation)s)
    AND (%(attempt)s::integer IS NULL OR runs.attempt <= %(attempt)s)
ORDER BY steps.generation, steps.finished_at, steps.name;
