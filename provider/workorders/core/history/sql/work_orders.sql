-- name: newest_of_triggers
-- The list of a trigger's work orders ends with its newest one; it is empty without a search index. BETWEEN is a fence:
-- with an equality, the planner may look for a rare trigger from the end of the primary key.
SELECT triggers.name, newest.id
FROM workorders.triggers
CROSS JOIN LATERAL (
    SELECT search_words.id
    FROM workorders.search_words
    WHERE search_words.trigger_id BETWEEN triggers.id AND triggers.id
    ORDER BY search_words.trigger_id DESC, search_words.id DESC
    LIMIT 1
) AS newest
WHERE triggers.name = ANY (%(triggers)s);

-- name: work_orders
-- A page whose ids are known.
SELECT work_orders.id, triggers.name AS trigger, workflows.name AS workflow, work_orders.state::text AS state,
    work_orders.created_at, source_streams.name AS stream, work_orders.position, rejections.code AS reason
-- use: named
WHERE work_orders.id = ANY (%(ids)s)
ORDER BY work_orders.id DESC;

-- name: count_by_state
-- Reads every work order that the filter's index ranges leave: about a second for each five million.
SELECT work_orders.state::text AS state, count(*) AS work_orders
-- use: filtered
WHERE
    -- use: passes
    AND (%(words)s::tsquery IS NULL OR search_words.words @@ %(words)s)
GROUP BY work_orders.state
ORDER BY work_orders.state;

-- name: count_without_input
-- Those that have ended and whose input retention has erased, so that no run can have it.
SELECT count(*)
-- use: filtered
LEFT JOIN workorders.dataclips ON dataclips.id = work_orders.id
WHERE
    -- use: passes
    AND (%(words)s::tsquery IS NULL OR search_words.words @@ %(words)s)
    AND work_orders.state NOT IN ('pending', 'requeued', 'running', 'parked')
    AND (dataclips.body IS NOT NULL OR rejections.raw IS NOT NULL OR rejections.request <> '{}') IS NOT TRUE;

-- name: matching
-- The next ids in the order of creation, and the last id that was read; newest_ids reads in the other order.
WITH matching AS MATERIALIZED (
    SELECT work_orders.id
    -- use: filtered
    WHERE
        -- use: passes
    ORDER BY work_orders.id
    LIMIT %(limit)s
)
SELECT ARRAY(SELECT id FROM matching), (SELECT id FROM matching ORDER BY id DESC LIMIT 1);

-- name: matching_with_words
-- The same, among the next `window` work orders, so that all steps of a job together read the words once. The list of a
-- word has no order, and each step would read all of it.
WITH next AS MATERIALIZED (
    SELECT search_words.id, search_words.words @@ %(words)s::tsquery AS has_words
    FROM workorders.search_words
    WHERE
        -- use: listed
    ORDER BY search_words.id
    LIMIT %(window)s
), matching AS MATERIALIZED (
    SELECT work_orders.id
    FROM next
    JOIN workorders.work_orders ON work_orders.id = next.id
    LEFT JOIN workorders.rejections ON rejections.work_order_id = work_orders.id
    WHERE next.has_words
        AND
        -- use: passes
    ORDER BY work_orders.id
    LIMIT %(limit)s
)
SELECT ARRAY(SELECT id FROM matching ORDER BY id),
    CASE WHEN (SELECT count(*) FROM matching) < %(limit)s
        THEN (SELECT id FROM next ORDER BY id DESC LIMIT 1)
        ELSE (SELECT id FROM matching ORDER BY id DESC LIMIT 1)
    END;

-- name: work_order
-- The JSON is fetched as text: a client's numbers are narrower than those of jsonb. The fence keeps the planner from
-- writing a large value out twice. To count its characters takes longer than that.
SELECT work_orders.id, triggers.name AS trigger, triggers.type AS trigger_type, workflows.name AS workflow,
    work_orders.state::text AS state, work_orders.created_at, source_streams.name AS stream, work_orders.position,
    left(texts.request, %(max_characters)s) AS request, octet_length(texts.request) AS request_bytes,
    left(texts.body, %(max_characters)s) AS body, octet_length(texts.body) AS body_bytes,
    rejections.code AS reason, rejections.detail, rejections.original_id AS duplicate_of,
    substring(rejections.raw FROM 1 FOR %(max_bytes)s) AS raw, octet_length(rejections.raw) AS raw_bytes
-- use: named
LEFT JOIN workorders.dataclips ON dataclips.id = work_orders.id
CROSS JOIN LATERAL (
    SELECT workorders.json_shown(coalesce(dataclips.request, rejections.request), true) AS request,
        workorders.json_shown(dataclips.body, true) AS body
    OFFSET 0
) AS texts
WHERE work_orders.id = %(id)s;

-- name: workflows_of
SELECT DISTINCT workflows.name
FROM workorders.work_orders
JOIN workorders.workflows ON workflows.id = work_orders.workflow_id
WHERE work_orders.id = ANY (%(ids)s)
ORDER BY workflows.name;

-- name: stored_bytes
-- Decompresses nothing: lengths are stored with the values.
SELECT coalesce(octet_length(rejections.raw), 0)
    + coalesce(pg_column_size(dataclips.body), 0)
    + coalesce(pg_column_size(coalesce(dataclips.request, rejections.request)), 0)
FROM unnest(%(ids)s::uuid[]) WITH ORDINALITY AS page (id, place)
LEFT JOIN workorders.dataclips ON dataclips.id = page.id
LEFT JOIN workorders.rejections ON rejections.work_order_id = page.id
ORDER BY page.place;

-- name: lines_of_export
-- JSON is made here, because a client's numbers are narrower than those of jsonb.
SELECT row_to_json(line)::text
FROM (
    SELECT work_orders.id,
        to_char(work_orders.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"') AS created_at,
        triggers.name AS trigger, triggers.type AS trigger_type,
        workflows.name AS workflow, work_orders.state, source_streams.name AS stream, work_orders.position,
        rejections.code AS reason, rejections.detail,
        translate(encode(rejections.raw, 'base64'), E'\n', '') AS raw_base64,
        coalesce(newest.attempt, 0) AS attempts, newest.error_type, newest.error,
        workorders.json_shown(coalesce(dataclips.request, rejections.request))::json AS request,
        workorders.json_shown(dataclips.body)::json AS body
    -- use: named
    LEFT JOIN workorders.dataclips ON dataclips.id = work_orders.id
    LEFT JOIN LATERAL (
        SELECT attempt, error_type, error
        FROM workorders.runs
        WHERE runs.work_order_id = work_orders.id
        ORDER BY attempt DESC
        LIMIT 1
    ) AS newest ON true
    WHERE work_orders.id = ANY (%(ids)s)
    ORDER BY work_orders.id
) AS line;

-- name: recount
-- The clock is read when all are counted.
INSERT INTO workorders.state_counts (trigger_id, workflow_id, state, work_orders, counted_at, seconds)
SELECT trigger_id, workflow_id, state, count(*), now(),
    extract(epoch FROM clock_timestamp() - statement_timestamp())::double precision
FROM workorders.work_orders
GROUP BY trigger_id, workflow_id, state;

-- name: lock_counts
LOCK TABLE workorders.state_counts IN SHARE ROW EXCLUSIVE MODE;

-- name: forget_counts
DELETE FROM workorders.state_counts;

-- name: are_counts_recent
-- For a minute, or for twenty times as long as the counting took. NULL if there are none.
SELECT now() - max(counted_at) < make_interval(secs => greatest(60, 20 * max(seconds))) FROM workorders.state_counts;

-- name: counts
SELECT state::text AS state, sum(work_orders)::bigint
FROM workorders.state_counts
WHERE %(workflow)s::text IS NULL OR workflow_id = (SELECT id FROM workorders.workflows WHERE name = %(workflow)s)
GROUP BY state
ORDER BY state;

-- name: counted_at
SELECT max(counted_at) FROM workorders.state_counts;
