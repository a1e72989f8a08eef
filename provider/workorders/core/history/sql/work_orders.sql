-- name: triggers
SELECT triggers.name, triggers.type, workflows.name AS workflow, triggers.definition, triggers.created_at,
    triggers.updated_at
FROM workorders.triggers
JOIN workorders.workflows ON workflows.id = triggers.workflow_id
ORDER BY triggers.name;

-- name: find_workflow
SELECT id FROM workorders.workflows WHERE name = %(name)s;

-- name: find_streams
SELECT id
FROM workorders.source_streams
WHERE starts_with(name, %(beginning)s)
    AND (%(trigger_id)s::integer IS NULL OR trigger_id = %(trigger_id)s);

-- block: filtered
-- What a filter is about. A join that no condition needs is left out when the query is planned.
FROM workorders.work_orders
LEFT JOIN workorders.rejections ON rejections.work_order_id = work_orders.id
LEFT JOIN workorders.search_words ON search_words.id = work_orders.id

-- block: passes
-- All of a filter but its words. What is not given is folded away when the query is planned, which is why it must be
-- planned anew each time (prepare=False): a generic plan would have to serve every combination.
        (%(first_id)s::uuid IS NULL OR work_orders.id >= %(first_id)s)
        AND (%(end_id)s::uuid IS NULL OR work_orders.id < %(end_id)s)
        AND (%(since)s::timestamptz IS NULL OR work_orders.created_at >= %(since)s)
        AND (%(until)s::timestamptz IS NULL OR work_orders.created_at < %(until)s)
        AND (%(trigger_id)s::integer IS NULL OR work_orders.trigger_id = %(trigger_id)s)
        AND (%(workflow_id)s::integer IS NULL OR work_orders.workflow_id = %(workflow_id)s)
        AND (%(state)s::workorders.work_order_state IS NULL OR work_orders.state = %(state)s)
        AND (%(state)s::workorders.work_order_state IS DISTINCT FROM 'rejected' OR rejections.work_order_id IS NOT NULL)
        AND (%(reason)s::text IS NULL OR rejections.code = %(reason)s)
        AND (%(stream_ids)s::integer[] IS NULL OR work_orders.stream_id = ANY (%(stream_ids)s))
        AND (%(from_position)s::bigint IS NULL OR work_orders.position >= %(from_position)s)
        AND (%(to_position)s::bigint IS NULL OR work_orders.position < %(to_position)s)
        AND (%(id)s::uuid IS NULL OR work_orders.id = %(id)s)

-- block: on_page
        (%(before_id)s::uuid IS NULL OR work_orders.id < %(before_id)s)
        AND (%(after_id)s::uuid IS NULL OR work_orders.id > %(after_id)s)

-- block: listed
-- The same of what is kept beside the words, by which newest ones are found in the order of an index.
        (%(first_id)s::uuid IS NULL OR search_words.id >= %(first_id)s)
        AND (%(before_id)s::uuid IS NULL OR search_words.id < %(before_id)s)
        AND (%(end_id)s::uuid IS NULL OR search_words.id < %(end_id)s)
        AND (%(until_id)s::uuid IS NULL OR search_words.id <= %(until_id)s)
        AND (%(trigger_id)s::integer IS NULL OR search_words.trigger_id = %(trigger_id)s)
        AND (%(workflow_id)s::integer IS NULL OR search_words.workflow_id = %(workflow_id)s)

-- block: summary
-- What people see of the work orders of a page.
SELECT page.id, triggers.name AS trigger, workflows.name AS workflow, page.state::text AS state, page.created_at,
    source_streams.name AS stream, page.position, rejections.code AS reason
FROM page
LEFT JOIN workorders.rejections ON rejections.work_order_id = page.id
LEFT JOIN workorders.triggers ON triggers.id = page.trigger_id
LEFT JOIN workorders.workflows ON workflows.id = page.workflow_id
LEFT JOIN workorders.source_streams ON source_streams.id = page.stream_id
ORDER BY page.id DESC;

-- name: work_orders
-- One page, newest first.
--   No filter, since, until and the next page are ranges of the primary key: they read one page of it.
--   A stream reads its own work orders only, and with positions these positions only.
--   A reason, and the state rejected, start from the rejections, which are few; every rejected work order has one.
--   An error state reads the index of the errors.
WITH page AS (
    SELECT work_orders.*
    -- use: filtered
    WHERE
        -- use: passes
        AND
        -- use: on_page
    ORDER BY work_orders.id DESC
    LIMIT %(limit)s
)
-- use: summary

-- name: work_orders_of
-- A page whose ids are known.
WITH page AS (
    SELECT * FROM workorders.work_orders WHERE id = ANY (%(ids)s)
)
-- use: summary

-- name: newest_ids
-- As work_orders, the ids alone.
SELECT work_orders.id
-- use: filtered
WHERE
    -- use: passes
    AND
    -- use: on_page
ORDER BY work_orders.id DESC
LIMIT %(limit)s;

-- name: newest_among
-- As newest_ids, of no more than so many of the newest.
SELECT work_orders.id
FROM (
    SELECT *
    FROM workorders.work_orders
    WHERE (%(first_id)s::uuid IS NULL OR work_orders.id >= %(first_id)s)
        AND (%(end_id)s::uuid IS NULL OR work_orders.id < %(end_id)s)
        AND
        -- use: on_page
    ORDER BY work_orders.id DESC
    LIMIT %(newest)s
) AS work_orders
LEFT JOIN workorders.rejections ON rejections.work_order_id = work_orders.id
WHERE
    -- use: passes
ORDER BY work_orders.id DESC
LIMIT %(limit)s;

-- block: all_passing
-- Fenced by OFFSET 0: with the limit in sight, the planner would go backwards from the newest one, and read everything
-- that came after an old stream.
SELECT id
FROM (
    SELECT work_orders.id
    -- use: filtered
    WHERE
        -- use: passes
        AND
        -- use: on_page
    OFFSET 0
) AS passing
ORDER BY id DESC

-- name: gathered
-- Gathers all that pass and sorts them.
-- use: all_passing
LIMIT %(limit)s;

-- name: read_lists
-- The planner takes words for independent, and the whole table for cheaper than many rows by an index; and what is found
-- within a tenth of a second is passed between processes more slowly than it is found.
SET LOCAL enable_seqscan = off;
SET LOCAL max_parallel_workers_per_gather = 0;

-- name: newest_of
-- Those of some ids that pass all of the filter but its words.
SELECT work_orders.id
-- use: filtered
WHERE work_orders.id = ANY (%(ids)s)
    AND
    -- use: passes
ORDER BY work_orders.id DESC
LIMIT %(limit)s;

-- name: newest_waiting
-- A page of each workflow, by the index of what waits: by the primary key, a few old ones are far behind all others.
SELECT waiting.id
FROM workorders.workflows
CROSS JOIN LATERAL (
    SELECT work_orders.id
    -- use: filtered
    WHERE work_orders.workflow_id BETWEEN workflows.id AND workflows.id AND work_orders.state = 'pending'
        AND
        -- use: passes
        AND
        -- use: on_page
    ORDER BY work_orders.workflow_id DESC, work_orders.id DESC
    LIMIT %(limit)s
) AS waiting
WHERE %(workflow_id)s::integer IS NULL OR workflows.id = %(workflow_id)s
ORDER BY waiting.id DESC
LIMIT %(limit)s;

-- name: newest_listed
-- A page of a trigger or a workflow that may be rare, of those whose words were added in order.
SELECT search_words.id
FROM workorders.search_words
CROSS JOIN LATERAL (SELECT * FROM workorders.work_orders WHERE work_orders.id = search_words.id OFFSET 0) AS work_orders
LEFT JOIN workorders.rejections ON rejections.work_order_id = work_orders.id
WHERE
    -- use: listed
    AND
    -- use: passes
ORDER BY search_words.id DESC
LIMIT %(limit)s;

-- name: newest_listed_with_words
-- Looks a text up in so many of the newest, as long as the page is not full. The inner limit is a fence: with the words
-- in sight, the planner would walk through all words there are.
SELECT newest.id
FROM (
    SELECT search_words.id, search_words.words
    FROM workorders.search_words
    WHERE
        -- use: listed
    ORDER BY search_words.id DESC
    LIMIT %(newest)s
) AS newest
CROSS JOIN LATERAL (SELECT * FROM workorders.work_orders WHERE work_orders.id = newest.id OFFSET 0) AS work_orders
LEFT JOIN workorders.rejections ON rejections.work_order_id = work_orders.id
WHERE newest.words @@ %(words)s::tsquery
    AND
    -- use: passes
ORDER BY newest.id DESC
LIMIT %(limit)s;

-- name: more_are_listed
-- Whether there are more than these newest.
SELECT EXISTS (
    SELECT
    FROM workorders.search_words
    WHERE
        -- use: listed
    ORDER BY search_words.id DESC
    OFFSET %(newest)s
);

-- block: with_words
    -- One look-up for each, fenced by OFFSET 0, as above.
    SELECT newest.id
    FROM newest
    CROSS JOIN LATERAL (SELECT words FROM workorders.search_words WHERE search_words.id = newest.id OFFSET 0) AS texts
    WHERE texts.words @@ %(words)s::tsquery
    ORDER BY newest.id DESC
    LIMIT %(limit)s

-- name: newest_with_words
-- Looks a text up in the newest work orders that pass all other filters, and says whether there are no more of them.
WITH newest AS MATERIALIZED (
    SELECT work_orders.id
    -- use: filtered
    WHERE
        -- use: passes
        AND
        -- use: on_page
    ORDER BY work_orders.id DESC
    LIMIT %(newest)s
), found AS (
    -- use: with_words
)
SELECT (SELECT count(*) FROM newest) < %(newest)s AS all_of_them, ARRAY(SELECT id FROM found) AS ids;

-- name: gathered_with_words
-- The same from all that pass, gathered.
WITH newest AS MATERIALIZED (
    -- use: all_passing
    LIMIT %(newest)s
), found AS (
    -- use: with_words
)
SELECT (SELECT count(*) FROM newest) < %(newest)s AS all_of_them, ARRAY(SELECT id FROM found) AS ids;

-- name: ids_by_words
-- Reads the lists of the words. The bounds stand outside, for they would lead the planner to another index.
WITH search_words AS MATERIALIZED (
    SELECT id, trigger_id, workflow_id FROM workorders.search_words WHERE words @@ %(words)s::tsquery
)
SELECT search_words.id
FROM search_words
WHERE
    -- use: listed
ORDER BY search_words.id DESC
LIMIT %(newest)s;

-- name: count_by_state
-- Reads every work order that the filter's index ranges leave: about a second for each five million.
SELECT work_orders.state::text AS state, count(*) AS work_orders
-- use: filtered
WHERE
    -- use: passes
    AND (%(words)s::tsquery IS NULL OR search_words.words @@ %(words)s)
GROUP BY work_orders.state
ORDER BY work_orders.state;

-- name: matching
-- The next ids in the order of creation, and how far was looked; see work_orders, which goes the other way.
WITH matching AS MATERIALIZED (
    SELECT work_orders.id
    -- use: filtered
    WHERE
        -- use: passes
        AND (%(after_id)s::uuid IS NULL OR work_orders.id > %(after_id)s)
    ORDER BY work_orders.id
    LIMIT %(limit)s
)
SELECT ARRAY(SELECT id FROM matching), (SELECT id FROM matching ORDER BY id DESC LIMIT 1);

-- name: matching_with_words
-- The same, from so many of the next: all steps of a job together read the words once. A list of words has no order, and
-- each step would read all of it.
WITH next AS MATERIALIZED (
    SELECT search_words.id, search_words.words @@ %(words)s::tsquery AS has_words
    FROM workorders.search_words
    WHERE (%(first_id)s::uuid IS NULL OR search_words.id >= %(first_id)s)
        AND (%(after_id)s::uuid IS NULL OR search_words.id > %(after_id)s)
        AND (%(end_id)s::uuid IS NULL OR search_words.id < %(end_id)s)
        AND (%(trigger_id)s::integer IS NULL OR search_words.trigger_id = %(trigger_id)s)
        AND (%(workflow_id)s::integer IS NULL OR search_words.workflow_id = %(workflow_id)s)
        AND (%(id)s::uuid IS NULL OR search_words.id = %(id)s)
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
-- The JSON is fetched as text: a client's numbers are narrower than those of jsonb.
SELECT work_orders.id, triggers.name AS trigger, triggers.type AS trigger_type, workflows.name AS workflow,
    work_orders.state::text AS state, work_orders.created_at,
    source_streams.name AS stream, work_orders.position,
    workorders.json_shown(coalesce(dataclips.request, rejections.request), true) AS request,
    workorders.json_shown(dataclips.body, true) AS body,
    rejections.code AS reason, rejections.detail, rejections.raw
FROM workorders.work_orders
LEFT JOIN workorders.triggers ON triggers.id = work_orders.trigger_id
LEFT JOIN workorders.workflows ON workflows.id = work_orders.workflow_id
LEFT JOIN workorders.source_streams ON source_streams.id = work_orders.stream_id
LEFT JOIN workorders.dataclips ON dataclips.id = work_orders.id
LEFT JOIN workorders.rejections ON rejections.work_order_id = work_orders.id
WHERE work_orders.id = %(id)s;

-- name: runs
SELECT id, attempt, state::text AS state, created_at, claimed_at, started_at, finished_at, error_type, error,
    actor, reason
FROM workorders.runs
WHERE work_order_id = %(work_order_id)s
ORDER BY attempt;
