-- name: count
-- Takes no lock of the work order: a claim passes over what is locked, and would run things out of their order. So one
-- that is deleted at this very moment may leave a row behind, which `forget` deletes.
INSERT INTO workorders.repeats AS kept (work_order_id, times, last_at, last_request)
SELECT id, 1, now(), %(request)s::text::jsonb FROM workorders.work_orders WHERE id = %(id)s
ON CONFLICT (work_order_id) DO UPDATE
SET times = kept.times + 1, last_at = EXCLUDED.last_at, last_request = EXCLUDED.last_request;

-- name: counts
SELECT (SELECT count(*) FROM workorders.duplicates WHERE original_id = given.id) AS kept,
    coalesce(repeats.times, 0) AS by_key, repeats.last_at, workorders.json_shown(repeats.last_request, true) AS last_request
FROM (VALUES (%(id)s::uuid)) AS given (id)
LEFT JOIN workorders.repeats ON repeats.work_order_id = given.id;

-- name: newest
SELECT work_orders.id, work_orders.created_at, source_streams.name AS stream, work_orders.position
FROM workorders.duplicates
JOIN workorders.work_orders ON work_orders.id = duplicates.work_order_id
LEFT JOIN workorders.source_streams ON source_streams.id = work_orders.stream_id
WHERE duplicates.original_id = %(id)s
ORDER BY duplicates.work_order_id DESC
LIMIT %(limit)s;

-- name: forget
DELETE FROM workorders.repeats
WHERE NOT EXISTS (SELECT FROM workorders.work_orders WHERE work_orders.id = repeats.work_order_id);
