-- name: start
UPDATE workorders.runs
SET state = 'started',
    started_at = coalesce(started_at, CASE WHEN NOT %(begin_later)s::boolean THEN statement_timestamp() END)
WHERE id = ANY (%(ids)b) AND worker_id = %(worker_id)s AND state IN ('claimed', 'started')
RETURNING id;

-- name: release
WITH released AS (
    UPDATE workorders.runs
    SET state = 'available', worker_id = NULL, claimed_at = NULL, started_at = NULL
    WHERE id = ANY (%(ids)b::uuid[]) AND worker_id = %(worker_id)s AND claimed_at IS NOT NULL AND finished_at IS NULL
    RETURNING work_order_id
)
UPDATE workorders.work_orders SET state = 'requeued' FROM released WHERE work_orders.id = released.work_order_id;

-- name: owned
SELECT id, state = 'started' FROM workorders.runs
WHERE workflow_id = %(workflow_id)s AND worker_id = %(worker_id)s AND claimed_at IS NOT NULL AND finished_at IS NULL;

-- name: store_steps
-- What another attempt has stored before stays. Without a row of the worker there is no row; see `workers.lock_worker`.
WITH owner AS MATERIALIZED (
    SELECT FROM workorders.workers WHERE id = %(worker_id)s FOR KEY SHARE
), given AS MATERIALIZED (
    SELECT * FROM unnest(
        %(ids)b::uuid[], %(names)b::text[], %(results)b::text[], %(finished)b::timestamptz[], %(made_by)b::uuid[],
        %(elsewhere)b::boolean[]
    ) AS given (run_id, name, result, finished_at, made_by, committed_elsewhere)
), owned AS (
    SELECT id, work_order_id, generation FROM workorders.runs
    -- As in `finish`, the runs are found by their ids.
    WHERE EXISTS (SELECT FROM owner) AND id = ANY (%(ids)b::uuid[])
        AND coalesce(worker_id = %(worker_id)s AND claimed_at IS NOT NULL AND finished_at IS NULL, false)
), stored AS (
    INSERT INTO workorders.steps (work_order_id, finished_at, run_id, generation, committed_elsewhere, name, result)
    SELECT owned.work_order_id, given.finished_at, given.made_by, owned.generation, given.committed_elsewhere, given.name,
        given.result::jsonb
    FROM given JOIN owned ON owned.id = given.run_id
    ON CONFLICT (work_order_id, generation, name) DO NOTHING
)
SELECT owned.id FROM owner LEFT JOIN owned ON true;

-- name: find_steps
-- Not those of `context.transaction`: of them, the user's database knows.
SELECT runs.id, runs.generation, ARRAY(
    SELECT ARRAY[steps.name, steps.result::text] FROM workorders.steps
    WHERE steps.work_order_id = runs.work_order_id AND steps.generation = runs.generation
        AND NOT steps.committed_elsewhere
)
FROM workorders.runs
WHERE runs.id = ANY (%(ids)b::uuid[]);
