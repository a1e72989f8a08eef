-- name: lock_workflow
-- Not FOR UPDATE: registering a trigger, which refers to the workflow, need not wait for claims.
-- The planner expects many streams, and would compile the claim in half a second to save nothing.
SELECT concurrency, set_config('jit', 'off', true) FROM workorders.workflows WHERE id = %(workflow_id)s FOR NO KEY UPDATE;

-- name: count_at_work
SELECT count(*) FROM (
    SELECT FROM workorders.runs
    WHERE workflow_id = %(workflow_id)s AND claimed_at IS NOT NULL AND finished_at IS NULL
    LIMIT %(concurrency)s
) AS at_work;
