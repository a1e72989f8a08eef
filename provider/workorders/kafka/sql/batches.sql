-- name: insert_batch
INSERT INTO workorders.kafka_batches (trigger_id) VALUES (%(trigger_id)s) RETURNING id;

-- name: insert_range
INSERT INTO workorders.kafka_ranges (batch_id, trigger_id, topic, partition, topic_id, start_offset, end_offset)
VALUES (%(batch_id)s, %(trigger_id)s, %(topic)s, %(partition)s, %(topic_id)s, %(start_offset)s, %(end_offset)s);

-- name: seconds_since_last_batch
SELECT extract(epoch FROM clock_timestamp() - max(batches.planned_at))::double precision
FROM workorders.kafka_batches AS batches
JOIN workorders.triggers ON triggers.id = batches.trigger_id
WHERE triggers.name = %(trigger)s;

-- name: unfinished
-- A batch that failed needs nobody before its next try is due; the ledger knows when that is, whoever makes the try.
SELECT batches.id, batches.handed_over_at IS NOT NULL AS handed_over
FROM workorders.triggers
JOIN workorders.kafka_ranges AS ranges ON ranges.trigger_id = triggers.id AND ranges.finished_at IS NULL
JOIN workorders.kafka_batches AS batches ON batches.id = ranges.batch_id
LEFT JOIN workorders.kafka_ledger AS ledger
    ON (ledger.trigger_id, ledger.topic, ledger.partition) = (ranges.trigger_id, ranges.topic, ranges.partition)
WHERE triggers.name = %(trigger)s
    AND batches.planned_at <= now() - %(seconds)s * interval '1 second'
GROUP BY batches.id
HAVING coalesce(max(ledger.next_attempt_at) <= now(), true)
ORDER BY batches.id;

-- name: mark_handed_over
UPDATE workorders.kafka_batches
SET handed_over_at = now()
WHERE id = ANY (%(batch_ids)s) AND handed_over_at IS NULL;

-- name: batch
SELECT batches.id, batches.planned_at, batches.handed_over_at,
    triggers.id AS trigger_id, triggers.name AS trigger_name, triggers.type AS trigger_type,
    triggers.workflow_id, workflows.name AS workflow, triggers.definition
FROM workorders.kafka_batches AS batches
JOIN workorders.triggers ON triggers.id = batches.trigger_id
JOIN workorders.workflows ON workflows.id = triggers.workflow_id
WHERE batches.id = %(batch_id)s;

-- name: ranges
SELECT topic, partition, topic_id, start_offset, end_offset, finished_at, created, rejected, last_error
FROM workorders.kafka_ranges
WHERE batch_id = %(batch_id)s
ORDER BY topic, partition;

-- name: finish_range
UPDATE workorders.kafka_ranges
SET finished_at = now(),
    created = %(created)s,
    rejected = %(rejected)s,
    last_error = NULL
WHERE batch_id = %(batch_id)s
    AND topic = %(topic)s
    AND partition = %(partition)s
    AND finished_at IS NULL;

-- name: begin_attempt
UPDATE workorders.kafka_batches SET epoch = %(epoch)s WHERE id = %(batch_id)s AND epoch < %(epoch)s;

-- name: forget_errors
UPDATE workorders.kafka_ranges SET last_error = NULL WHERE batch_id = %(batch_id)s AND last_error IS NOT NULL;

-- name: write_error
-- The batch's epoch and not the ledger's: a replay has no part in the ledger, and an older attempt must not speak there
-- either.
UPDATE workorders.kafka_ranges AS ranges
SET last_error = %(error)s
FROM workorders.kafka_batches AS batches
WHERE batches.id = ranges.batch_id
    AND batches.epoch = %(epoch)s
    AND ranges.batch_id = %(batch_id)s
    AND ranges.topic = %(topic)s
    AND ranges.partition = %(partition)s;

-- name: batches
-- The page is cut first, on the index, and only its batches are summed up.
SELECT batches.id, triggers.name AS trigger, batches.planned_at, batches.handed_over_at,
    max(ranges.finished_at) FILTER (WHERE NOT EXISTS (
        SELECT FROM workorders.kafka_ranges AS unfinished
        WHERE unfinished.batch_id = batches.id AND unfinished.finished_at IS NULL
    )) AS finished_at,
    count(*) AS partitions,
    coalesce(sum(ranges.created), 0)::bigint AS created,
    coalesce(sum(ranges.rejected), 0)::bigint AS rejected
FROM (
    SELECT id, trigger_id, planned_at, handed_over_at
    FROM workorders.kafka_batches
    WHERE (%(trigger)s::text IS NULL OR trigger_id = (SELECT id FROM workorders.triggers WHERE name = %(trigger)s))
        AND (%(before)s::bigint IS NULL OR id < %(before)s)
    ORDER BY id DESC
    LIMIT %(limit)s
) AS batches
JOIN workorders.triggers ON triggers.id = batches.trigger_id
JOIN workorders.kafka_ranges AS ranges ON ranges.batch_id = batches.id
GROUP BY batches.id, batches.planned_at, batches.handed_over_at, triggers.name
ORDER BY batches.id DESC;

-- name: count_in_range
SELECT count(*)
FROM workorders.work_orders
JOIN workorders.source_streams ON source_streams.id = work_orders.stream_id
WHERE source_streams.trigger_id = %(trigger_id)s
    AND source_streams.name = %(stream)s
    AND work_orders.position >= %(start_offset)s
    AND work_orders.position < %(end_offset)s;
