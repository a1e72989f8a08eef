-- name: count_ignored
-- Locks no work order: a claim skips locked rows, and would run the others out of order. So a work order that is deleted
-- at this moment may leave a row behind, which `delete_orphans` deletes.
INSERT INTO workorders.ignored_repeats AS stored (work_order_id, count, last_at, last_request)
SELECT id, 1, now(), %(request)s::text::jsonb FROM workorders.work_orders WHERE id = %(id)s
ON CONFLICT (work_order_id) DO UPDATE
SET count = stored.count + 1, last_at = EXCLUDED.last_at, last_request = EXCLUDED.last_request;

-- name: ignore
-- Counts as `count_ignored` does, in the order of the holders, so that no two transactions wait for each other.
WITH given AS MATERIALIZED (
    SELECT id, holder, place
    FROM unnest(%(ids)s::uuid[], %(holders)s::uuid[]) WITH ORDINALITY AS given (id, holder, place)
),
orders AS (
    DELETE FROM workorders.work_orders USING given WHERE work_orders.id = given.id
),
clips AS (
    DELETE FROM workorders.dataclips USING given WHERE dataclips.id = given.id
    RETURNING given.holder, given.place, dataclips.request
),
rejected AS (
    DELETE FROM workorders.rejections USING given WHERE rejections.work_order_id = given.id
    RETURNING given.holder, given.place, rejections.request
),
counted AS (
    INSERT INTO workorders.ignored_repeats AS stored (work_order_id, count, last_at, last_request)
    SELECT holders.id, count(*), now(), (array_agg(repeats.request ORDER BY repeats.place DESC))[1]
    FROM (TABLE clips UNION ALL TABLE rejected) AS repeats
    JOIN workorders.work_orders AS holders ON holders.id = repeats.holder
    GROUP BY holders.id
    ORDER BY holders.id
    ON CONFLICT (work_order_id) DO UPDATE
    SET count = stored.count + EXCLUDED.count, last_at = EXCLUDED.last_at, last_request = EXCLUDED.last_request
)
SELECT (SELECT count(*) FROM clips), (SELECT count(*) FROM rejected);

-- name: original
SELECT original_id FROM workorders.duplicates WHERE work_order_id = %(id)s;

-- name: counts
SELECT (SELECT count(*) FROM workorders.duplicates WHERE original_id = given.id) AS kept,
    coalesce(stored.count, 0) AS ignored, stored.last_at, workorders.json_shown(stored.last_request, true) AS last_request
FROM (VALUES (%(id)s::uuid)) AS given (id)
LEFT JOIN workorders.ignored_repeats AS stored ON stored.work_order_id = given.id;

-- name: newest
SELECT work_orders.id, work_orders.created_at, source_streams.name AS stream, work_orders.position
FROM workorders.duplicates
JOIN workorders.work_orders ON work_orders.id = duplicates.work_order_id
LEFT JOIN workorders.source_streams ON source_streams.id = work_orders.stream_id
WHERE duplicates.original_id = %(id)s
ORDER BY duplicates.work_order_id DESC
LIMIT %(limit)s;

-- name: delete_orphans
WITH next AS (
    SELECT work_order_id FROM workorders.ignored_repeats
    WHERE work_order_id > %(after)s
    ORDER BY work_order_id
    LIMIT %(limit)s
), orphans AS (
    DELETE FROM workorders.ignored_repeats USING next
    WHERE ignored_repeats.work_order_id = next.work_order_id
        AND NOT EXISTS (SELECT FROM workorders.work_orders WHERE work_orders.id = next.work_order_id)
)
SELECT work_order_id FROM next ORDER BY work_order_id DESC LIMIT 1;
