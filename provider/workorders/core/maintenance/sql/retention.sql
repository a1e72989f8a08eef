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

-- name: expired
-- The oldest first. A work order that is locked is in somebody's hands, so it can wait for the next time.
SELECT work_orders.id, work_orders.stream_id, work_orders.position
FROM workorders.work_orders
JOIN unnest(%(workflow_ids)s::integer[], %(good_before)s::timestamptz[], %(errors_before)s::timestamptz[])
    AS policies (workflow_id, good_before, errors_before) ON policies.workflow_id = work_orders.workflow_id
WHERE work_orders.id > %(after)s
    AND work_orders.id < %(end_id)s
    AND work_orders.state NOT IN ('pending', 'running', 'parked')
    AND work_orders.created_at <
        CASE WHEN work_orders.state IN ('success', 'cancelled') THEN good_before ELSE errors_before END
ORDER BY work_orders.id
LIMIT %(limit)s
FOR UPDATE OF work_orders SKIP LOCKED;

-- name: count_expired
SELECT policies.workflow_id, count(*)
FROM workorders.work_orders
JOIN unnest(%(workflow_ids)s::integer[], %(good_before)s::timestamptz[], %(errors_before)s::timestamptz[])
    AS policies (workflow_id, good_before, errors_before) ON policies.workflow_id = work_orders.workflow_id
WHERE work_orders.id < %(end_id)s
    AND work_orders.state NOT IN ('pending', 'running', 'parked')
    AND work_orders.created_at <
        CASE WHEN work_orders.state IN ('success', 'cancelled') THEN good_before ELSE errors_before END
GROUP BY policies.workflow_id;

-- name: delete
WITH gone AS (
    DELETE FROM workorders.work_orders WHERE id = ANY (%(ids)s) RETURNING id
), runs AS (
    DELETE FROM workorders.runs USING gone WHERE runs.work_order_id = gone.id RETURNING runs.id
), outputs AS (
    DELETE FROM workorders.run_outputs USING runs WHERE run_outputs.run_id = runs.id
), logs AS (
    DELETE FROM workorders.run_logs USING runs WHERE run_logs.run_id = runs.id
), dataclips AS (
    DELETE FROM workorders.dataclips USING gone WHERE dataclips.id = gone.id
), rejections AS (
    DELETE FROM workorders.rejections USING gone WHERE rejections.work_order_id = gone.id
), words AS (
    DELETE FROM workorders.search_words USING gone WHERE search_words.id = gone.id
), repeats AS (
    DELETE FROM workorders.duplicates USING gone WHERE duplicates.work_order_id = gone.id
)
SELECT count(*) FROM gone;

-- name: unwiped
SELECT work_orders.id
FROM workorders.work_orders
JOIN unnest(%(workflow_ids)s::integer[], %(wipe_before)s::timestamptz[])
    AS policies (workflow_id, wipe_before) ON policies.workflow_id = work_orders.workflow_id
LEFT JOIN workorders.dataclips ON dataclips.id = work_orders.id
LEFT JOIN workorders.rejections ON rejections.work_order_id = work_orders.id
LEFT JOIN workorders.ignored_repeats ON ignored_repeats.work_order_id = work_orders.id
WHERE work_orders.id > %(after)s
    AND work_orders.id < %(end_id)s
    AND work_orders.state NOT IN ('pending', 'running', 'parked')
    AND work_orders.created_at < policies.wipe_before
    AND (
        dataclips.body IS NOT NULL OR rejections.raw IS NOT NULL OR rejections.request <> '{}'
        OR ignored_repeats.last_request IS NOT NULL
    )
ORDER BY work_orders.id
LIMIT %(limit)s
FOR UPDATE OF work_orders SKIP LOCKED;

-- name: count_unwiped
SELECT policies.workflow_id, count(*)
FROM workorders.work_orders
JOIN unnest(%(workflow_ids)s::integer[], %(wipe_before)s::timestamptz[])
    AS policies (workflow_id, wipe_before) ON policies.workflow_id = work_orders.workflow_id
LEFT JOIN workorders.dataclips ON dataclips.id = work_orders.id
LEFT JOIN workorders.rejections ON rejections.work_order_id = work_orders.id
LEFT JOIN workorders.ignored_repeats ON ignored_repeats.work_order_id = work_orders.id
WHERE work_orders.id < %(end_id)s
    AND work_orders.state NOT IN ('pending', 'running', 'parked')
    AND work_orders.created_at < policies.wipe_before
    AND (
        dataclips.body IS NOT NULL OR rejections.raw IS NOT NULL OR rejections.request <> '{}'
        OR ignored_repeats.last_request IS NOT NULL
    )
GROUP BY policies.workflow_id;

-- name: wipe
-- The request goes as well: a key and headers may say as much of a person as a body. Where the event came from stays,
-- for it stands in the work order.
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
-- The digest and the mark stay: without them a number that comes again would be taken for a new one.
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
-- A job without its text must never go on: it would come to other work orders. So what failed and was left is cancelled.
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

-- name: lock_stream
-- Against creating what is missing in the stream: whoever looks there must see either the work order or its deletion.
SELECT pg_try_advisory_xact_lock(%(class)s, %(stream_id)s);

-- name: lock_stream_shared
SELECT pg_advisory_xact_lock_shared(%(class)s, %(stream_id)s);

-- name: note_whole
INSERT INTO workorders.whole_ranges (stream_id, from_position, to_position, work_orders)
VALUES (%(stream_id)s, %(start)s, %(end)s, %(work_orders)s)
ON CONFLICT (stream_id, from_position, to_position) DO NOTHING;

-- name: remember
-- Ranges that touch become one, so what retention deletes in order stays a single row. Those with gaps stay as they are:
-- how many work orders a part of them had, nobody knows.
WITH near AS (
    DELETE FROM workorders.deleted_positions
    WHERE stream_id = %(stream_id)s
        AND work_orders = to_position - from_position
        AND from_position >= coalesce(
            (
                SELECT max(from_position)
                FROM workorders.deleted_positions
                WHERE stream_id = %(stream_id)s AND from_position <= %(first)s
            ),
            %(first)s
        )
        AND from_position <= %(last)s + 1
    RETURNING from_position, to_position
), ranges AS (
    SELECT unnest(range_agg(range)) AS range
    FROM (
        SELECT int8range(from_position, to_position) AS range FROM near
        UNION ALL
        SELECT int8range(position, position + 1)
        FROM unnest(%(positions)s::bigint[]) AS gone (position)
        WHERE NOT EXISTS (
            SELECT FROM workorders.deleted_positions AS with_gaps
            WHERE with_gaps.stream_id = %(stream_id)s
                AND with_gaps.work_orders < with_gaps.to_position - with_gaps.from_position
                AND gone.position >= with_gaps.from_position
                AND gone.position < with_gaps.to_position
        )
    ) AS old_and_new
)
INSERT INTO workorders.deleted_positions (stream_id, from_position, to_position, work_orders)
SELECT %(stream_id)s, lower(range), upper(range), upper(range) - lower(range) FROM ranges;

-- name: close_gaps
-- Of one whole range all of whose work orders are deleted: none is there, and as many were deleted as it had. So nothing
-- is missing in its gaps that a replay could restore, and they may count as deleted. Anything less is no proof: where an
-- operator has jumped ahead, or a work order was lost, a gap looks the same and its messages must still be created.
WITH done AS (
    DELETE FROM workorders.whole_ranges
    WHERE (stream_id, from_position, to_position) IN (
        SELECT stream_id, from_position, to_position
        FROM workorders.whole_ranges AS whole
        WHERE stream_id = %(stream_id)s
            AND from_position <= %(last)s
            AND to_position > %(first)s
            AND NOT EXISTS (
                SELECT FROM workorders.work_orders
                WHERE work_orders.stream_id = whole.stream_id
                    AND work_orders.position >= whole.from_position
                    AND work_orders.position < whole.to_position
            )
            AND work_orders <= (
                SELECT sum(
                    least(deleted.to_position, whole.to_position) - greatest(deleted.from_position, whole.from_position)
                )
                FROM workorders.deleted_positions AS deleted
                WHERE deleted.stream_id = whole.stream_id
                    AND deleted.from_position < whole.to_position
                    AND deleted.to_position > whole.from_position
                HAVING bool_and(deleted.work_orders = deleted.to_position - deleted.from_position)
            )
        ORDER BY from_position
        LIMIT 1
    )
    RETURNING from_position, to_position, work_orders
), near AS (
    DELETE FROM workorders.deleted_positions
    USING done
    WHERE deleted_positions.stream_id = %(stream_id)s
        AND deleted_positions.from_position < done.to_position
        AND deleted_positions.to_position > done.from_position
    RETURNING deleted_positions.from_position, deleted_positions.to_position
), all_near AS (
    -- All of them, so that they are gone before the first row is written that takes the place of one.
    SELECT range_agg(int8range(from_position, to_position)) AS ranges FROM near
)
INSERT INTO workorders.deleted_positions (stream_id, from_position, to_position, work_orders)
SELECT %(stream_id)s, lower(part.range), upper(part.range), part.work_orders
FROM done
CROSS JOIN all_near
CROSS JOIN LATERAL (
    SELECT int8range(done.from_position, done.to_position) AS range, done.work_orders
    UNION ALL
    SELECT beside, upper(beside) - lower(beside)
    FROM unnest(all_near.ranges - int8multirange(int8range(done.from_position, done.to_position))) AS beside
) AS part;
