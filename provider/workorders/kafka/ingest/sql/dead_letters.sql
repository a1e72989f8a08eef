-- name: rejected
-- created_at is the start of the transaction that created the work order, and the caller holds the lock of the partition:
-- so these are the work orders of this attempt, and not those that were there before. They are enqueued in several calls:
-- in the order of the locks, so that partitions do not deadlock, and those of a key in the order of their offsets.
SELECT work_orders.id, rejections.raw, rejections.request::text AS request, rejections.code, rejections.detail
FROM workorders.source_streams
JOIN workorders.work_orders ON work_orders.stream_id = source_streams.id
JOIN workorders.rejections ON rejections.work_order_id = work_orders.id
WHERE source_streams.trigger_id = %(trigger_id)s
    AND source_streams.name = %(stream)s
    AND work_orders.position >= %(start_offset)s
    AND work_orders.position < %(end_offset)s
    AND work_orders.created_at = now()
    AND rejections.code <> ALL (%(by_rules)s)
ORDER BY workorders.outbox_lock_number(workorders.outbox_hash(%(topic)s, CASE jsonb_typeof(rejections.request -> 'key')
    WHEN 'string' THEN convert_to(rejections.request ->> 'key', 'UTF8')
    WHEN 'object' THEN decode(rejections.request -> 'key' ->> 'base64', 'base64')
END)), work_orders.position;
