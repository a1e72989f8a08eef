-- name: rejected
SELECT rejections.work_order_id AS id, rejections.raw, rejections.request::text AS request, rejections.code,
    rejections.detail, triggers.name AS trigger, triggers.type, triggers.definition, source_streams.name AS stream,
    work_orders.stream_id, work_orders.position
FROM workorders.rejections
JOIN workorders.work_orders ON work_orders.id = rejections.work_order_id
JOIN workorders.triggers ON triggers.id = work_orders.trigger_id
LEFT JOIN workorders.source_streams ON source_streams.id = work_orders.stream_id
WHERE rejections.work_order_id = ANY (%(ids)s)
ORDER BY rejections.work_order_id;

-- name: replace_by_dataclip
WITH gone AS (
    DELETE FROM workorders.rejections WHERE work_order_id = %(id)s
)
INSERT INTO workorders.dataclips (id, body, request) VALUES (%(id)s, %(body)s::text::jsonb, %(request)s::text::jsonb);

-- name: accept
UPDATE workorders.work_orders
SET state = 'pending', ordering_key = given.ordering_key
FROM unnest(%(ids)s::uuid[], %(ordering_keys)s::bigint[]) AS given (id, ordering_key)
WHERE work_orders.id = given.id;

-- name: pending
SELECT id FROM workorders.work_orders WHERE id = ANY (%(ids)s) AND state = 'pending' ORDER BY id;

-- name: update_rejection
UPDATE workorders.rejections
SET code = %(code)s, detail = %(detail)s
WHERE work_order_id = %(id)s AND (code, detail) IS DISTINCT FROM (%(code)s, %(detail)s);
