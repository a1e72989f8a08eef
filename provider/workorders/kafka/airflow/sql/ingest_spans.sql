-- name: times
-- The transaction began with the attempt. In nanoseconds, as OpenTelemetry counts.
SELECT (extract(epoch FROM now()) * 1000000)::bigint * 1000, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000;

-- name: messages
-- The first work orders that this attempt has created, by the source's order, if their senders began a trace.
SELECT work_orders.id, ranges.topic, ranges.partition, work_orders.position, dataclips.request
FROM workorders.kafka_ranges AS ranges
JOIN workorders.kafka_ledger AS ledger
    ON (ledger.trigger_id, ledger.topic, ledger.partition) = (ranges.trigger_id, ranges.topic, ranges.partition)
CROSS JOIN LATERAL (
    SELECT id, position FROM workorders.work_orders
    WHERE work_orders.stream_id = ledger.stream_id
        AND work_orders.position >= ranges.start_offset
        AND work_orders.position < ranges.end_offset
    ORDER BY work_orders.position
    LIMIT %(limit)s
) AS work_orders
JOIN workorders.dataclips ON dataclips.id = work_orders.id
WHERE ranges.batch_id = %(batch_id)s
    AND ranges.finished_at >= now()
    AND jsonb_path_exists(dataclips.request, '$.headers[*] ? (@[0] like_regex "^traceparent$" flag "i")')
LIMIT %(limit)s;
