-- name: progress
SELECT count(*) AS created, count(*) FILTER (WHERE state = 'rejected') AS rejected
FROM workorders.work_orders;

-- name: work_orders
SELECT work_orders.position, work_orders.state::text AS state,
    extract(epoch FROM work_orders.created_at)::double precision AS created_at,
    coalesce(dataclips.request, rejections.request) AS request,
    dataclips.body, rejections.code AS reason, rejections.raw
FROM workorders.work_orders
LEFT JOIN workorders.dataclips ON dataclips.id = work_orders.id
LEFT JOIN workorders.rejections ON rejections.work_order_id = work_orders.id;

-- name: ledger
SELECT ledger.partition, ledger.next_offset
FROM workorders.kafka_ledger AS ledger
JOIN workorders.triggers ON triggers.id = ledger.trigger_id
WHERE triggers.name = %(trigger)s AND ledger.topic = %(topic)s;

-- name: batches
SELECT batches.id, coalesce(sum(ranges.created + ranges.rejected), 0)::bigint AS work_orders
FROM workorders.kafka_batches AS batches
JOIN workorders.kafka_ranges AS ranges ON ranges.batch_id = batches.id
GROUP BY batches.id
ORDER BY batches.id;

-- name: fingerprint
-- Every row that a replay could add, change or remove.
SELECT
    (SELECT md5(string_agg(work_orders::text, ',' ORDER BY id)) FROM workorders.work_orders),
    (SELECT md5(string_agg(md5(dataclips::text), ',' ORDER BY id)) FROM workorders.dataclips),
    (SELECT md5(string_agg(md5(rejections::text), ',' ORDER BY work_order_id)) FROM workorders.rejections),
    (SELECT md5(string_agg(concat_ws(' ', topic, partition, next_offset), ',' ORDER BY topic, partition))
     FROM workorders.kafka_ledger);
