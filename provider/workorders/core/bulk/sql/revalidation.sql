-- name: rejected
SELECT rejections.work_order_id AS id, rejections.raw, rejections.request::text AS request, rejections.code,
    rejections.detail, triggers.name AS trigger, triggers.type, triggers.definition,
    workflows.definition ->> 'ordering_key' AS ordering_key, source_streams.name AS stream, work_orders.stream_id,
    work_orders.position
FROM workorders.rejections
JOIN workorders.work_orders ON work_orders.id = rejections.work_order_id
JOIN workorders.triggers ON triggers.id = work_orders.trigger_id
JOIN workorders.workflows ON workflows.id = triggers.workflow_id
LEFT JOIN workorders.source_streams ON source_streams.id = work_orders.stream_id
WHERE rejections.work_order_id = ANY (%(ids)s)
ORDER BY rejections.work_order_id;

-- name: accept
WITH gone AS (
    DELETE FROM workorders.rejections WHERE work_order_id = %(id)s
), accepted AS (
    UPDATE workorders.work_orders SET state = 'pending', ordering_key = %(ordering_key)s WHERE id = %(id)s
)
INSERT INTO workorders.dataclips (id, body, request) VALUES (%(id)s, %(body)s::text::jsonb, %(request)s::text::jsonb);

-- name: pending
SELECT id FROM workorders.work_orders WHERE id = ANY (%(ids)s) AND state = 'pending' ORDER BY id;

-- name: update_rejection
UPDATE workorders.rejections
SET code = %(code)s, detail = %(detail)s
WHERE work_order_id = %(id)s AND (code, detail) IS DISTINCT FROM (%(code)s, %(detail)s);
