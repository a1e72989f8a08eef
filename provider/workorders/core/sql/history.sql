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

-- name: work_orders
-- One page, newest first. A filter that is not given is folded away when the query is planned, which is why it must be
-- planned anew each time (prepare=False): a generic plan would have to serve every combination.
--   No filter, since, until and the next page are ranges of the primary key: they read one page of it.
--   A stream reads its own work orders only, and with positions these positions only.
--   A reason, and the state rejected, start from the rejections, which are few; every rejected work order has one.
--   An error state reads the index of the errors.
--   A trigger, a workflow and any other state read the primary key backwards until the page is full: quick where
--   they are common, and a scan of the table where they are rare, unless since or a stream narrows it.
WITH page AS (
    SELECT work_orders.id, work_orders.trigger_id, work_orders.workflow_id, work_orders.stream_id,
        work_orders.position, work_orders.created_at, work_orders.state, rejections.code AS reason
    FROM workorders.work_orders
    LEFT JOIN workorders.rejections ON rejections.work_order_id = work_orders.id
    WHERE (%(first_id)s::uuid IS NULL OR work_orders.id >= %(first_id)s)
        AND (%(before_id)s::uuid IS NULL OR work_orders.id < %(before_id)s)
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
        AND (%(ids)s::uuid[] IS NULL OR work_orders.id = ANY (%(ids)s))
    ORDER BY work_orders.id DESC
    LIMIT %(limit)s
)
SELECT page.id, triggers.name AS trigger, workflows.name AS workflow, page.state::text AS state, page.created_at,
    source_streams.name AS stream, page.position, page.reason
FROM page
LEFT JOIN workorders.triggers ON triggers.id = page.trigger_id
LEFT JOIN workorders.workflows ON workflows.id = page.workflow_id
LEFT JOIN workorders.source_streams ON source_streams.id = page.stream_id
ORDER BY page.id DESC;

-- name: newest_with_words
-- Looks a text up in the newest work orders that pass all other filters, and says whether there are no more of them.
-- Quick where the word is common; where it is not, the planner does not know, and would read everything.
WITH newest AS MATERIALIZED (
    SELECT work_orders.id
    FROM workorders.work_orders
    LEFT JOIN workorders.rejections ON rejections.work_order_id = work_orders.id
    WHERE (%(first_id)s::uuid IS NULL OR work_orders.id >= %(first_id)s)
        AND (%(before_id)s::uuid IS NULL OR work_orders.id < %(before_id)s)
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
    ORDER BY work_orders.id DESC
    LIMIT %(newest)s
), found AS (
    -- One look-up for each, fenced by OFFSET 0: with the word in sight, the planner may walk through all words there are.
    SELECT newest.id
    FROM newest
    CROSS JOIN LATERAL (SELECT words FROM workorders.search_words WHERE search_words.id = newest.id OFFSET 0) AS texts
    WHERE texts.words @@ %(words)s::tsquery
    ORDER BY newest.id DESC
    LIMIT %(limit)s
)
SELECT (SELECT count(*) FROM newest) < %(newest)s AS all_of_them, ARRAY(SELECT id FROM found) AS ids;

-- name: ids_by_words
-- Reads the lists of the words. The bounds stand outside, for they would lead the planner to the primary key.
WITH found AS MATERIALIZED (
    SELECT id FROM workorders.search_words WHERE words @@ %(words)s::tsquery
)
SELECT id
FROM found
WHERE (%(first_id)s::uuid IS NULL OR id >= %(first_id)s)
    AND (%(before_id)s::uuid IS NULL OR id < %(before_id)s)
    AND (%(end_id)s::uuid IS NULL OR id < %(end_id)s)
ORDER BY id DESC
LIMIT %(newest)s;

-- name: count_by_state
-- Reads every work order that the filter's index ranges leave: about a second for each five million.
SELECT work_orders.state::text AS state, count(*) AS work_orders
FROM workorders.work_orders
LEFT JOIN workorders.rejections ON rejections.work_order_id = work_orders.id
LEFT JOIN workorders.search_words ON search_words.id = work_orders.id
WHERE (%(first_id)s::uuid IS NULL OR work_orders.id >= %(first_id)s)
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
    AND (%(words)s::tsquery IS NULL OR search_words.words @@ %(words)s)
GROUP BY work_orders.state
ORDER BY work_orders.state;

-- name: matching
-- The next ids in the order of creation; see work_orders, which goes the other way.
SELECT work_orders.id
FROM workorders.work_orders
LEFT JOIN workorders.rejections ON rejections.work_order_id = work_orders.id
LEFT JOIN workorders.search_words ON search_words.id = work_orders.id
WHERE (%(first_id)s::uuid IS NULL OR work_orders.id >= %(first_id)s)
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
    AND (%(words)s::tsquery IS NULL OR search_words.words @@ %(words)s)
    AND (%(after_id)s::uuid IS NULL OR work_orders.id > %(after_id)s)
ORDER BY work_orders.id
LIMIT %(limit)s;

-- name: work_order
-- The JSON is fetched as text: a client's numbers are narrower than those of jsonb.
SELECT work_orders.id, triggers.name AS trigger, triggers.type AS trigger_type, workflows.name AS workflow,
    work_orders.state::text AS state, work_orders.created_at,
    source_streams.name AS stream, work_orders.position,
    jsonb_pretty(coalesce(dataclips.request, rejections.request)) AS request,
    jsonb_pretty(dataclips.body) AS body,
    rejections.code AS reason, rejections.detail, rejections.raw
FROM workorders.work_orders
LEFT JOIN workorders.triggers ON triggers.id = work_orders.trigger_id
LEFT JOIN workorders.workflows ON workflows.id = work_orders.workflow_id
LEFT JOIN workorders.source_streams ON source_streams.id = work_orders.stream_id
LEFT JOIN workorders.dataclips ON dataclips.id = work_orders.id
LEFT JOIN workorders.rejections ON rejections.work_order_id = work_orders.id
WHERE work_orders.id = %(id)s;

-- name: runs
SELECT attempt, state::text AS state, created_at, claimed_at, started_at, finished_at, error_type, error
FROM workorders.runs
WHERE work_order_id = %(work_order_id)s
ORDER BY attempt;
