-- name: newest_ids
--   No filter, since, until and the next page are ranges of the primary key: they read one page of it.
--   A stream reads its own work orders only, and with positions these positions only.
--   A reason, and the state rejected, start from the rejections, which are few; every rejected work order has one.
--   An error state reads the index of the errors.
SELECT work_orders.id
-- use: filtered
WHERE
    -- use: passes
ORDER BY work_orders.id DESC
LIMIT %(limit)s;

-- name: newest_among
-- As newest_ids, among the `newest` newest work orders only.
SELECT work_orders.id
FROM (
    SELECT *
    FROM workorders.work_orders
    WHERE (%(first_id)s::uuid IS NULL OR work_orders.id >= %(first_id)s)
        AND (%(end_id)s::uuid IS NULL OR work_orders.id < %(end_id)s)
        AND (%(before_id)s::uuid IS NULL OR work_orders.id < %(before_id)s)
    ORDER BY work_orders.id DESC
    LIMIT %(newest)s
) AS work_orders
LEFT JOIN workorders.rejections ON rejections.work_order_id = work_orders.id
WHERE
    -- use: passes
ORDER BY work_orders.id DESC
LIMIT %(limit)s;

-- block: all_passing
-- OFFSET 0 is a fence: with the limit, the planner would read backwards from the newest one, past everything that came
-- after an old stream.
SELECT id
FROM (
    SELECT work_orders.id
    -- use: filtered
    WHERE
        -- use: passes
    OFFSET 0
) AS passing
ORDER BY id DESC

-- name: gathered
-- Gathers all that pass and sorts them.
-- use: all_passing
LIMIT %(limit)s;

-- name: index_scans_only
-- The planner assumes that words are independent, and that a scan of the table is cheaper than many rows by an index.
-- A parallel scan is slower too, because the rows are found within a tenth of a second.
SET LOCAL enable_seqscan = off;
SET LOCAL max_parallel_workers_per_gather = 0;

-- name: newest_waiting
-- A page of each workflow, by the index of pending work orders: the primary key finds a few old ones last.
SELECT waiting.id
FROM workorders.workflows
CROSS JOIN LATERAL (
    SELECT work_orders.id
    -- use: filtered
    WHERE work_orders.workflow_id BETWEEN workflows.id AND workflows.id AND work_orders.state = 'pending'
        AND
        -- use: passes
    ORDER BY work_orders.workflow_id DESC, work_orders.id DESC
    LIMIT %(limit)s
) AS waiting
WHERE %(workflow_id)s::integer IS NULL OR workflows.id = %(workflow_id)s
ORDER BY waiting.id DESC
LIMIT %(limit)s;

-- name: newest_listed
-- A page of a trigger, a workflow, or an ordering key that may be rare, among the work orders whose words were added in
-- order. One page per key, by its index: an ANY of several is not read in the order of the ids.
SELECT listed.id
FROM unnest(coalesce(%(ordering_keys)s::bigint[], '{NULL}')) AS wanted (ordering_key)
CROSS JOIN LATERAL (
    SELECT search_words.id
    FROM workorders.search_words
    CROSS JOIN LATERAL (
        SELECT * FROM workorders.work_orders WHERE work_orders.id = search_words.id OFFSET 0
    ) AS work_orders
    LEFT JOIN workorders.rejections ON rejections.work_order_id = work_orders.id
    WHERE (%(ordering_keys)s::bigint[] IS NULL OR search_words.ordering_key = wanted.ordering_key)
        AND
        -- use: listed
        AND
        -- use: passes
    ORDER BY search_words.id DESC
    LIMIT %(limit)s
) AS listed
ORDER BY listed.id DESC
LIMIT %(limit)s;

-- name: listed_with_words
-- Searches the words of the `newest` newest ones, and returns whether these were all, which is looked up only if the page is
-- not full. The inner limit is a fence: without it, the planner would read all words.
WITH found AS MATERIALIZED (
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
    LIMIT %(limit)s
)
SELECT (SELECT count(*) FROM found) < %(limit)s AND NOT EXISTS (
    SELECT FROM workorders.search_words
    WHERE
        -- use: listed
    ORDER BY search_words.id DESC
    OFFSET %(newest)s
) AS all_of_them, ARRAY(SELECT id FROM found) AS ids;

-- name: gathered_with_words
-- Searches the words of the newest work orders that pass all other filters, and returns whether these were all. One look-up
-- for each, fenced by OFFSET 0, as above.
WITH newest AS MATERIALIZED (
    -- use: all_passing
    LIMIT %(newest)s
), found AS (
    SELECT newest.id
    FROM newest
    CROSS JOIN LATERAL (SELECT words FROM workorders.search_words WHERE search_words.id = newest.id OFFSET 0) AS texts
    WHERE texts.words @@ %(words)s::tsquery
    ORDER BY newest.id DESC
    LIMIT %(limit)s
)
SELECT (SELECT count(*) FROM newest) < %(newest)s AS all_of_them, ARRAY(SELECT id FROM found) AS ids;

-- name: ids_by_words
-- Reads the lists of the words. The bounds are outside, because they would lead the planner to another index.
WITH search_words AS MATERIALIZED (
    SELECT id, trigger_id, workflow_id, ordering_key FROM workorders.search_words WHERE words @@ %(words)s::tsquery
)
SELECT search_words.id
FROM search_words
WHERE
    -- use: listed
ORDER BY search_words.id DESC
LIMIT %(newest)s;
