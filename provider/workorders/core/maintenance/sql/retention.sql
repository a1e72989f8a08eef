-- block: policies
-- The times before which the data of each workflow is due, by its definition; NULL is never. Work orders with errors are
-- kept at least as long as the others.
WITH policies AS MATERIALIZED (
    SELECT workflow_id, workflow, good_before, errors_before, wipe_before,
        greatest(wipe_before, errors_before) AS erase_before
    FROM (
        SELECT id AS workflow_id, name AS workflow,
            %(now)s::timestamptz - good_age AS good_before,
            %(now)s::timestamptz - CASE WHEN good_age IS NULL THEN error_age ELSE greatest(good_age, error_age) END
                AS errors_before,
            %(now)s::timestamptz - wipe_age AS wipe_before
        FROM workorders.workflows
        CROSS JOIN LATERAL (
            SELECT make_interval(secs => (definition #>> '{retention,delete_after}')::double precision) AS good_age,
                make_interval(secs => (definition #>> '{retention,delete_errors_after}')::double precision) AS error_age,
                make_interval(secs => (definition #>> '{retention,erase_after}')::double precision) AS wipe_age
        ) AS kept
        WHERE jsonb_typeof(definition -> 'retention') = 'object'
    ) AS ages
)

-- name: bounds
-- The times before which all that may be due was created.
-- use: policies
SELECT coalesce(max(greatest(good_before, errors_before)), 'epoch'), coalesce(max(wipe_before), 'epoch')
FROM policies;

-- name: is_due
SELECT NOT EXISTS (
    SELECT
    FROM workorders.history_marks
    WHERE (name = 'retention' AND moved_at > now() - %(interval)s::interval)
        OR (name = 'retention_step' AND moved_at > now() - %(silence)s::interval)
);

-- name: begin_step
-- The mark shows that retention runs. It moves back with the step if that fails.
WITH lock AS (
    SELECT pg_try_advisory_xact_lock(%(key)s) AS is_held
), moved AS (
    INSERT INTO workorders.history_marks (name, id)
    SELECT 'retention_step', '00000000-0000-0000-0000-000000000000' FROM lock WHERE is_held
    ON CONFLICT (name) DO UPDATE SET moved_at = now()
)
SELECT is_held FROM lock;

-- block: has_ended
    AND work_orders.state NOT IN ('pending', 'requeued', 'running', 'parked')

-- name: look_ahead
-- The last of the next work orders, due or not. No statement reads beyond it, however many are kept.
SELECT id
FROM (
    SELECT id FROM workorders.work_orders WHERE id > %(after)s AND id < %(end)s ORDER BY id LIMIT %(look)s
) AS next
ORDER BY id DESC
LIMIT 1;

-- name: expired
-- The oldest first. A locked work order is in use by another transaction, so it can wait for the next time.
-- use: policies
SELECT work_orders.id
FROM workorders.work_orders
JOIN policies ON policies.workflow_id = work_orders.workflow_id
WHERE work_orders.id < %(end_id)s
-- use: has_ended
    AND work_orders.created_at <
        CASE WHEN work_orders.state IN ('success', 'cancelled') THEN good_before ELSE errors_before END
    AND work_orders.id > %(after)s
    AND work_orders.id <= %(until)s
ORDER BY work_orders.id
LIMIT %(limit)s
FOR UPDATE OF work_orders SKIP LOCKED;

-- block: note_steps
    -- Transactions may have stored results in another database, from which this statement cannot delete them; see `delete_steps`.
    INSERT INTO workorders.expired_steps (connection, work_order_id)
    SELECT DISTINCT workflows.definition #>> '{database,connection}', runs.work_order_id
    FROM runs
    JOIN workorders.workflows ON workflows.id = runs.workflow_id
    WHERE workflows.definition #> '{database,connection}' IS NOT NULL
    ON CONFLICT DO NOTHING

-- name: delete
WITH gone AS (
    DELETE FROM workorders.work_orders WHERE id = ANY (%(ids)s) RETURNING id
), runs AS (
    DELETE FROM workorders.runs USING gone WHERE runs.work_order_id = gone.id
    RETURNING runs.id, runs.work_order_id, runs.workflow_id
), expired_steps AS (
-- use: note_steps
), results AS (
    DELETE FROM workorders.run_results USING runs WHERE run_results.run_id = runs.id
), steps AS (
    DELETE FROM workorders.steps USING gone WHERE steps.work_order_id = gone.id
), dataclips AS (
    DELETE FROM workorders.dataclips USING gone WHERE dataclips.id = gone.id
), rejections AS (
    DELETE FROM workorders.rejections USING gone WHERE rejections.work_order_id = gone.id
), words AS (
    DELETE FROM workorders.search_words USING gone WHERE search_words.id = gone.id
), ignored AS (
    DELETE FROM workorders.ignored_repeats USING gone WHERE ignored_repeats.work_order_id = gone.id
)
SELECT count(*) FROM gone;

-- name: unwiped
-- Those that have data, the oldest first. One that had not ended, or was in use, is found by a later run of retention.
-- use: policies
SELECT work_orders.id
-- The bounds of a step are in each join, so that none reads more of its table than the step's part, whatever it joins by.
FROM workorders.work_orders
JOIN policies ON policies.workflow_id = work_orders.workflow_id
LEFT JOIN workorders.dataclips ON dataclips.id = work_orders.id
    AND dataclips.id > %(after)s AND dataclips.id <= %(until)s
LEFT JOIN workorders.rejections ON rejections.work_order_id = work_orders.id
    AND rejections.work_order_id > %(after)s AND rejections.work_order_id <= %(until)s
WHERE work_orders.id > %(after)s
    AND work_orders.id <= %(until)s
-- use: has_ended
    AND work_orders.created_at < policies.wipe_before
    AND (dataclips.body IS NOT NULL OR rejections.raw IS NOT NULL OR rejections.request <> '{}')
ORDER BY work_orders.id
LIMIT %(limit)s
FOR UPDATE OF work_orders SKIP LOCKED;

-- name: wipe
-- Wipes the request too: a key and headers may contain as much about a person as a body. The source of the event stays,
-- because the work order contains it.
WITH clips AS (
    UPDATE workorders.dataclips SET body = NULL, request = '{}'
    WHERE id = ANY (%(ids)s) AND (body IS NOT NULL OR request <> '{}')
), rejections AS (
    UPDATE workorders.rejections SET raw = NULL, request = '{}' WHERE work_order_id = ANY (%(ids)s)
), runs AS (
    SELECT id, work_order_id, workflow_id FROM workorders.runs WHERE work_order_id = ANY (%(ids)s)
), expired_steps AS (
-- use: note_steps
), errors AS (
    -- An exception often quotes what it could not read; its type stays.
    UPDATE workorders.runs SET error = NULL WHERE work_order_id = ANY (%(ids)s) AND error IS NOT NULL
), results AS (
    DELETE FROM workorders.run_results USING runs WHERE run_results.run_id = runs.id
), steps AS (
    -- Without its input, no run of the work order can ask for them.
    DELETE FROM workorders.steps WHERE work_order_id = ANY (%(ids)s)
)
UPDATE workorders.search_words SET words = '' WHERE id = ANY (%(ids)s) AND words <> '';

-- name: erase_names
-- The hash and the high-water mark stay, because a number that comes again would count as new without them.
-- use: policies
, due AS (
    SELECT sequences.trigger_id, sequences.key
    FROM workorders.sequences
    JOIN workorders.triggers ON triggers.id = sequences.trigger_id
    JOIN policies ON policies.workflow_id = triggers.workflow_id
    WHERE (sequences.trigger_id, sequences.key) > (%(after_trigger)s, %(after_key)s)
        AND sequences.name <> ''
        AND sequences.parked = 0
        AND sequences.used_at < policies.erase_before
    ORDER BY sequences.trigger_id, sequences.key
    LIMIT %(limit)s
    FOR UPDATE OF sequences SKIP LOCKED
), erased AS (
    UPDATE workorders.sequences SET name = ''
    FROM due
    WHERE (sequences.trigger_id, sequences.key) = (due.trigger_id, due.key)
)
SELECT trigger_id, key FROM due ORDER BY trigger_id, key;

-- name: erase_texts
-- A job without its texts must never continue, because it would select other work orders. So failed jobs are cancelled.
-- use: policies
UPDATE workorders.bulk_jobs
SET filter = filter || (
        SELECT jsonb_object_agg(name, %(erased)s::text)
        FROM unnest('{text,ordering_key}'::text[]) AS name
        WHERE filter ? name
    ),
    state = CASE WHEN state = 'failed' THEN 'cancelled' ELSE state END,
    error = NULL
WHERE state IN ('finished', 'cancelled', 'failed')
    AND (filter ->> 'text' <> %(erased)s OR filter ->> 'ordering_key' <> %(erased)s)
    AND EXISTS (
        SELECT FROM policies
        WHERE bulk_jobs.created_at < policies.erase_before
            AND coalesce(bulk_jobs.filter ->> 'workflow', policies.workflow) = policies.workflow
    );

-- name: note_end
-- For metrics, which show how long ago it was.
INSERT INTO workorders.history_marks AS mark (name, id) VALUES ('retention', '00000000-0000-0000-0000-000000000000')
ON CONFLICT (name) DO UPDATE SET moved_at = now();

-- name: step_databases
SELECT DISTINCT connection FROM workorders.expired_steps WHERE expired_at < now() - %(wait)s::interval;

-- name: due_steps
SELECT work_order_id
FROM workorders.expired_steps
WHERE connection = %(connection)s AND expired_at < now() - %(wait)s::interval
ORDER BY expired_at
LIMIT %(limit)s;

-- name: delete_steps
-- In the database of the workflow.
DELETE FROM workorders_steps WHERE work_order_id = ANY (%(ids)s);

-- name: forget_steps
DELETE FROM workorders.expired_steps WHERE connection = %(connection)s AND work_order_id = ANY (%(ids)s);
