-- name: finish
-- Stores how runs ended. Those that failed are retried by the policies of their workflows, which decide after what delay.
WITH given AS MATERIALIZED (
    SELECT * FROM unnest(
        %(ids)b::uuid[], %(states)b::text[], %(error_types)b::text[], %(errors)b::text[],
        %(started)b::timestamptz[], %(finished)b::timestamptz[], %(may_retry)b::boolean[], %(retry_ids)b::uuid[],
        %(outputs)b::text[], %(logs)b::text[], %(truncated)b::boolean[]
    ) AS given (id, state, error_type, error, started_at, finished_at, may_retry, retry_id, output, log, truncated)
), finished AS (
    UPDATE workorders.runs
    SET state = given.state::workorders.run_state,
        started_at = coalesce(given.started_at, runs.started_at),
        finished_at = coalesce(given.finished_at, statement_timestamp()),
        error_type = given.error_type,
        error = given.error
    FROM given
    -- The planner expects few runs of a worker, and would compare each of them with every result. It cannot look into
    -- coalesce, and so finds the runs by their ids.
    WHERE runs.id = given.id AND runs.id = ANY (%(ids)b::uuid[])
        AND coalesce(runs.worker_id = %(worker_id)s AND runs.state IN ('claimed', 'started'), false)
    RETURNING runs.id, runs.work_order_id, runs.workflow_id, runs.ordering_key, runs.attempt, runs.generation, runs.retry,
        runs.state, given.may_retry, given.retry_id, given.output, given.log, given.truncated
), policies AS MATERIALIZED (
    SELECT id, definition -> 'retries' AS retries
    FROM workorders.workflows
    WHERE id IN (SELECT workflow_id FROM finished WHERE state <> 'success')
), decided AS MATERIALIZED (
    SELECT finished.*, policies.retries,
        policies.id IS NOT NULL AND finished.may_retry
            AND finished.retry < coalesce((policies.retries ->> 'max_retries')::integer, 0)
            AND policies.retries -> 'after' ? finished.state::text AS again
    FROM finished LEFT JOIN policies ON policies.id = finished.workflow_id
), again AS (
    INSERT INTO workorders.runs
        (id, work_order_id, workflow_id, ordering_key, attempt, generation, retry, state, not_before)
    SELECT retry_id, work_order_id, workflow_id, ordering_key, attempt + 1, generation, retry + 1, 'available',
        statement_timestamp() + make_interval(secs => least(
            (retries ->> 'max_delay')::double precision,
            (retries ->> 'first_delay')::double precision
                * CASE WHEN (retries ->> 'exponential_backoff')::boolean THEN 2 ^ least(retry, 30) ELSE 1 END
        ))
    FROM decided
    WHERE again
), released AS (
    UPDATE workorders.runs
    SET state = 'available', worker_id = NULL, claimed_at = NULL, started_at = NULL
    WHERE workflow_id IN (SELECT id FROM policies) AND worker_id = %(worker_id)s
        AND claimed_at IS NOT NULL AND finished_at IS NULL AND id <> ALL (%(ids)b)
        AND ordering_key IN (SELECT ordering_key FROM decided WHERE again)
    RETURNING id, work_order_id
), derived AS (
    UPDATE workorders.work_orders
    SET state = became.state::workorders.work_order_state
    FROM (
        SELECT work_order_id AS id, CASE WHEN again THEN 'requeued' ELSE state::text END AS state FROM decided
        UNION ALL
        SELECT work_order_id, 'requeued' FROM released
    ) AS became
    WHERE work_orders.id = became.id
), results AS (
    INSERT INTO workorders.run_results (run_id, output, log, log_truncated)
    SELECT id, output::jsonb, log, truncated FROM finished WHERE output IS NOT NULL OR log <> ''
)
SELECT id, again FROM decided;
