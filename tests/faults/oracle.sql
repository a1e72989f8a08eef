-- name: schema
CREATE SCHEMA IF NOT EXISTS faults;
CREATE TABLE IF NOT EXISTS faults.sent (
    trigger text NOT NULL,
    producer integer NOT NULL,
    sequence integer NOT NULL,
    partition integer NOT NULL,
    position bigint NOT NULL,
    kind text NOT NULL,
    value bytea
);
CREATE INDEX IF NOT EXISTS sent_place_idx ON faults.sent (trigger, partition, position);

-- name: found
-- The work orders of a trigger with their places, whatever topic id their stream has.
CREATE TEMPORARY TABLE found AS
SELECT orders.id, split_part(split_part(streams.name, '@', 1), '/', 2)::integer AS partition, streams.id AS stream_id,
    orders.position, orders.state, clips.body, rejections.code, rejections.raw
FROM workorders.work_orders AS orders
JOIN workorders.triggers ON triggers.id = orders.trigger_id
JOIN workorders.source_streams AS streams ON streams.id = orders.stream_id
LEFT JOIN workorders.dataclips AS clips ON clips.id = orders.id
LEFT JOIN workorders.rejections ON rejections.work_order_id = orders.id
WHERE triggers.name = %(trigger)s;

-- name: due
-- What must have a work order: all that was sent, but on a partition that stands still by right what lies before its
-- ledger.
CREATE TEMPORARY TABLE due AS
SELECT sent.*
FROM faults.sent
WHERE sent.trigger = %(trigger)s
    AND (
        sent.partition <> ALL (%(standing_still)s)
        OR sent.position < (
            SELECT ledger.next_offset
            FROM workorders.kafka_ledger AS ledger
            JOIN workorders.triggers ON triggers.id = ledger.trigger_id
            WHERE triggers.name = sent.trigger AND ledger.partition = sent.partition
        )
    );

-- name: unsent
-- Sequence numbers that the journal lacks: the producer itself has a hole, and nothing can be said.
SELECT count(*)
FROM (SELECT producer, max(sequence) AS last FROM faults.sent WHERE trigger = %(trigger)s GROUP BY producer) AS ends
CROSS JOIN LATERAL generate_series(0, ends.last) AS number
LEFT JOIN faults.sent ON sent.trigger = %(trigger)s AND sent.producer = ends.producer AND sent.sequence = number
WHERE sent.sequence IS NULL;

-- name: messages
SELECT count(*) FROM due;

-- name: lost
SELECT count(*) FROM due
WHERE NOT EXISTS (SELECT FROM found WHERE (found.partition, found.position) = (due.partition, due.position));

-- name: duplicated
-- Work orders too many: two of one place, or one content at two places.
SELECT
    (SELECT coalesce(sum(times - 1), 0) FROM (
        SELECT count(*) AS times FROM found GROUP BY partition, position
    ) AS places)
    + (SELECT coalesce(sum(times - 1), 0) FROM (
        SELECT count(*) AS times FROM (
            SELECT DISTINCT partition, position, body ->> 'producer' AS producer, body ->> 'seq' AS sequence
            FROM found WHERE body ? 'seq'
        ) AS contents GROUP BY producer, sequence
    ) AS numbers);

-- name: strangers
-- Work orders of what nobody has sent or what was aborted.
SELECT count(*) FROM found
WHERE NOT EXISTS (SELECT FROM due WHERE (due.partition, due.position) = (found.partition, found.position));

-- name: wrong
-- Inputs with another content, and rejections with another reason or other bytes than expected.
SELECT count(*) FROM found JOIN due USING (partition, position)
WHERE CASE due.kind
    WHEN 'accepted' THEN found.state = 'rejected' OR found.body IS DISTINCT FROM convert_from(due.value, 'UTF8')::jsonb
    ELSE found.state <> 'rejected' OR found.code IS DISTINCT FROM due.kind OR found.raw IS DISTINCT FROM due.value
END;

-- name: disordered
-- Within a range, ids grow with offsets; along a partition, each producer's numbers do.
SELECT
    (SELECT count(*) FROM (
        SELECT found.id, lag(found.id) OVER (
            PARTITION BY ranges.batch_id, found.stream_id ORDER BY found.position
        ) AS before
        FROM found
        JOIN workorders.kafka_ranges AS ranges
            ON ranges.trigger_id = (SELECT id FROM workorders.triggers WHERE name = %(trigger)s)
            AND ranges.partition = found.partition
            AND found.position >= ranges.start_offset AND found.position < ranges.end_offset
    ) AS ids WHERE before >= id)
    + (SELECT count(*) FROM (
        SELECT (body ->> 'seq')::bigint AS sequence, lag((body ->> 'seq')::bigint) OVER (
            PARTITION BY stream_id, body ->> 'producer' ORDER BY position
        ) AS before
        FROM found WHERE body ? 'seq'
    ) AS numbers WHERE before >= sequence);

-- name: visible_offsets
SELECT partition, position FROM faults.sent WHERE trigger = %(trigger)s ORDER BY partition, position;

-- name: ledger
SELECT ledger.partition, ledger.next_offset, ledger.status
FROM workorders.kafka_ledger AS ledger
JOIN workorders.triggers ON triggers.id = ledger.trigger_id
WHERE triggers.name = %(trigger)s;
