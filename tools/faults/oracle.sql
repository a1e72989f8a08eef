-- name: schema
CREATE SCHEMA IF NOT EXISTS faults;
CREATE TABLE IF NOT EXISTS faults.sent (
    trigger text NOT NULL,
    producer integer NOT NULL,
    sequence integer NOT NULL,
    partition integer NOT NULL,
    position bigint NOT NULL,
    kind text NOT NULL,
    value bytea,
    log integer NOT NULL
);
CREATE INDEX IF NOT EXISTS sent_place_idx ON faults.sent (trigger, partition, position);

-- name: logs
-- The streams of each partition in the order in which they came, numbered as the logs that were sent to. There are as
-- many logs as an operator let the trigger follow: whatever stream there is beyond that is the last log again.
CREATE TEMPORARY TABLE logs AS
SELECT streams.id AS stream_id, streams.name AS stream, place.partition, least(
    row_number() OVER (PARTITION BY place.partition ORDER BY streams.id) - 1,
    coalesce((
        SELECT max(sent.log) FROM faults.sent
        WHERE sent.trigger = %(trigger)s AND sent.partition = place.partition
    ), 0)
)::integer AS log
FROM workorders.source_streams AS streams
JOIN workorders.triggers ON triggers.id = streams.trigger_id
CROSS JOIN LATERAL (
    SELECT split_part(split_part(streams.name, '@', 1), '/', 2)::integer AS partition
) AS place
WHERE triggers.name = %(trigger)s;

-- name: found
-- The work orders of a trigger with their places.
CREATE TEMPORARY TABLE found AS
SELECT orders.id, logs.partition, logs.log, logs.stream_id, logs.stream, orders.position, orders.state, clips.body,
    rejections.code, rejections.raw
FROM workorders.work_orders AS orders
JOIN workorders.triggers ON triggers.id = orders.trigger_id
JOIN logs USING (stream_id)
LEFT JOIN workorders.dataclips AS clips ON clips.id = orders.id
LEFT JOIN workorders.rejections ON rejections.work_order_id = orders.id
WHERE triggers.name = %(trigger)s;

-- name: due
-- What must have a work order: all that was sent, but for what Kafka lost of a first log before it was read, and on a
-- partition that must be stalled but for what does not lie before its ledger.
CREATE TEMPORARY TABLE due AS
SELECT sent.*
FROM faults.sent
WHERE sent.trigger = %(trigger)s
    AND NOT EXISTS (
        SELECT FROM unnest(%(gone_partitions)s::integer[], %(gone_starts)s::bigint[], %(gone_ends)s::bigint[])
            AS gone (partition, start_offset, end_offset)
        WHERE sent.log = 0
            AND sent.partition = gone.partition
            AND sent.position >= gone.start_offset
            AND sent.position < gone.end_offset
    )
    AND (
        sent.partition <> ALL (%(stalled)s)
        OR sent.position < (
            SELECT ledger.next_offset
            FROM workorders.kafka_ledger AS ledger
            JOIN workorders.triggers ON triggers.id = ledger.trigger_id
            WHERE triggers.name = sent.trigger AND ledger.partition = sent.partition
        )
    );

-- name: unsent
-- Sequence numbers that the journal lacks: the producer itself has a hole, and there is no verdict.
SELECT count(*)
FROM (SELECT producer, max(sequence) AS last FROM faults.sent WHERE trigger = %(trigger)s GROUP BY producer) AS ends
CROSS JOIN LATERAL generate_series(0, ends.last) AS number
LEFT JOIN faults.sent ON sent.trigger = %(trigger)s AND sent.producer = ends.producer AND sent.sequence = number
WHERE sent.sequence IS NULL;

-- name: messages
SELECT count(*) FROM due;

-- name: lost
SELECT count(*) FROM due
WHERE NOT EXISTS (
    SELECT FROM found WHERE (found.partition, found.log, found.position) = (due.partition, due.log, due.position)
);

-- name: duplicated
-- Work orders too many: two of one place, or one content at two places.
SELECT
    (SELECT coalesce(sum(times - 1), 0) FROM (
        SELECT count(*) AS times FROM found GROUP BY partition, log, position
    ) AS places)
    + (SELECT coalesce(sum(times - 1), 0) FROM (
        SELECT count(*) AS times FROM (
            SELECT DISTINCT partition, log, position, body ->> 'producer' AS producer, body ->> 'seq' AS sequence
            FROM found WHERE body ? 'seq'
        ) AS contents GROUP BY producer, sequence
    ) AS numbers);

-- name: strangers
-- Work orders of what was never sent or was aborted.
SELECT count(*) FROM found
WHERE NOT EXISTS (
    SELECT FROM due WHERE (due.partition, due.log, due.position) = (found.partition, found.log, found.position)
);

-- name: wrong
-- Inputs with another content, and rejections with another reason or other bytes than expected.
SELECT count(*) FROM found JOIN due USING (partition, log, position)
WHERE CASE due.kind
    WHEN 'accepted' THEN found.state = 'rejected' OR found.body IS DISTINCT FROM convert_from(due.value, 'UTF8')::jsonb
    ELSE found.state <> 'rejected' OR found.code IS DISTINCT FROM due.kind OR found.raw IS DISTINCT FROM due.value
END;

-- name: disordered
-- Within a range or a virtual partition, ids grow with offsets; along a partition, each producer's numbers do.
SELECT
    (SELECT count(*) FROM (
        SELECT found.id, lag(found.id) OVER (
            PARTITION BY ranges.batch_id, parts.start_offset, found.stream_id ORDER BY found.position
        ) AS before
        FROM found
        JOIN workorders.kafka_ranges AS ranges
            ON ranges.trigger_id = (SELECT id FROM workorders.triggers WHERE name = %(trigger)s)
            AND ranges.partition = found.partition
            AND found.stream = concat(
                ranges.topic, '/', ranges.partition, '@', ranges.topic_id, '~' || nullif(ranges.generation, 0)
            )
            AND found.position >= ranges.start_offset AND found.position < ranges.end_offset
        LEFT JOIN workorders.kafka_virtual_partitions AS parts
            ON (parts.batch_id, parts.topic, parts.partition) = (ranges.batch_id, ranges.topic, ranges.partition)
            AND found.position >= parts.start_offset AND found.position < parts.end_offset
    ) AS ids WHERE before >= id)
    + (SELECT count(*) FROM (
        SELECT (body ->> 'seq')::bigint AS sequence, lag((body ->> 'seq')::bigint) OVER (
            PARTITION BY stream_id, body ->> 'producer' ORDER BY position
        ) AS before
        FROM found WHERE body ? 'seq'
    ) AS numbers WHERE before >= sequence);

-- name: visible_offsets
SELECT partition, log, position FROM due ORDER BY partition, log, position;

-- name: followed
SELECT stream_id, log FROM logs;

-- name: ledger
SELECT ledger.partition, ledger.next_offset, ledger.status
FROM workorders.kafka_ledger AS ledger
JOIN workorders.triggers ON triggers.id = ledger.trigger_id
WHERE triggers.name = %(trigger)s;
