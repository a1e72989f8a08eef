-- name: policies
SELECT id AS workflow_id, name AS workflow,
    (definition #>> '{retention,days}')::double precision AS days,
    (definition #>> '{retention,keep_errors_days}')::double precision AS keep_errors_days,
    (definition #>> '{retention,wipe_bodies_after_days}')::double precision AS wipe_bodies_after_days
FROM workorders.workflows
WHERE jsonb_typeof(definition -> 'retention') = 'object'
ORDER BY name;

-- name: lock
SELECT pg_try_advisory_xact_lock(%(key)s);

-- block: due_for_deletion
FROM workorders.work_orders
JOIN unnest(%(workflow_ids)s::integer[], %(good_before)s::timestamptz[], %(errors_before)s::timestamptz[])
    AS policies (workflow_id, good_before, errors_before) ON policies.workflow_id = work_orders.workflow_id
WHERE work_orders.id > %(after)s
    AND work_orders.id < %(end_id)s
    AND work_orders.state NOT IN ('pending', 'running', 'parked')
    AND work_orders.created_at <
        CASE WHEN work_orders.state IN ('success', 'cancelled') THEN good_before ELSE errors_before END

-- name: expired
-- The oldest first. A locked work order is in use by another transaction, so it can wait for the next time.
SELECT work_orders.id, work_orders.stream_id, work_orders.position
-- use: due_for_deletion
ORDER BY work_orders.id
LIMIT %(limit)s
FOR UPDATE OF work_orders SKIP LOCKED;

-- name: count_expired
SELECT policies.workflow_id, count(*)
-- use: due_for_deletion
GROUP BY policies.workflow_id;

-- block: due_for_wiping
FROM workorders.work_orders
JOIN unnest(%(workflow_ids)s::integer[], %(wipe_before)s::timestamptz[])
    AS policies (workflow_id, wipe_before) ON policies.workflow_id = work_orders.workflow_id
LEFT JOIN workorders.dataclips ON dataclips.id = work_orders.id
LEFT JOIN workorders.rejections ON rejections.work_order_id = work_orders.id
LEFT JOIN workorders.ignored_repeats ON ignored_repeats.work_order_id = work_orders.id
WHERE work_orders.id > %(after)s
    AND work_orders.id < %(wipe_end_id)s
    AND work_orders.state NOT IN ('pending', 'running', 'parked')
    AND work_orders.created_at < policies.wipe_before
    AND (
        dataclips.body IS NOT NULL OR rejections.raw IS NOT NULL OR rejections.request <> '{}'
        OR ignored_repeats.last_request IS NOT NULL
    )

-- name: unwiped
SELECT work_orders.id
-- use: due_for_wiping
ORDER BY work_orders.id
LIMIT %(limit)s
FOR UPDATE OF work_orders SKIP LOCKED;

-- name: count_unwiped
SELECT policies.workflow_id, count(*)
-- use: due_for_wiping
GROUP BY policies.workflow_id;

-- name: wipe
-- Wipes the request too: a key and headers may contain as much about a person as a body. The source of the event stays,
-- because the work order contains it.
WITH clips AS (
    UPDATE workorders.dataclips SET body = NULL, request = '{}' WHERE id = ANY (%(ids)s)
), rejections AS (
    UPDATE workorders.rejections SET raw = NULL, request = '{}' WHERE work_order_id = ANY (%(ids)s)
), repeats AS (
    UPDATE workorders.ignored_repeats SET last_request = NULL WHERE work_order_id = ANY (%(ids)s)
), runs AS (
    SELECT id FROM workorders.runs WHERE work_order_id = ANY (%(ids)s)
), errors AS (
    -- An exception often quotes what it could not read; its type stays.
    UPDATE workorders.runs SET error = NULL WHERE work_order_id = ANY (%(ids)s) AND error IS NOT NULL
), outputs AS (
    DELETE FROM workorders.run_outputs USING runs WHERE run_outputs.run_id = runs.id
), logs AS (
    DELETE FROM workorders.run_logs USING runs WHERE run_logs.run_id = runs.id
)
UPDATE workorders.search_words SET words = '' WHERE id = ANY (%(ids)s) AND words <> '';

-- name: erase_names
-- The hash and the high-water mark stay, because a number that comes again would count as new without them.
WITH due AS (
    SELECT sequences.trigger_id, sequences.key
    FROM workorders.sequences
    JOIN workorders.triggers ON triggers.id = sequences.trigger_id
    JOIN unnest(%(workflow_ids)s::integer[], %(erase_before)s::timestamptz[])
        AS policies (workflow_id, erase_before) ON policies.workflow_id = triggers.workflow_id
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
-- A job without its text must never continue, because it would select other work orders. So failed jobs are cancelled.
UPDATE workorders.bulk_jobs
SET filter = jsonb_set(filter, '{text}', to_jsonb(%(erased)s::text)),
    state = CASE WHEN state = 'failed' THEN 'cancelled' ELSE state END,
    error = NULL
WHERE state IN ('finished', 'cancelled', 'failed')
    AND filter ->> 'text' <> %(erased)s
    AND EXISTS (
        SELECT FROM unnest(%(workflows)s::text[], %(erase_before)s::timestamptz[])
            AS policies (workflow, erase_before)
        WHERE bulk_jobs.created_at < policies.erase_before
            AND coalesce(bulk_jobs.filter ->> 'workflow', policies.workflow) = policies.workflow
    );
