-- name: enqueue
-- With CAST, because `::` next to a name means something else to SQLAlchemy.
SELECT workorders.enqueue_many(
    CAST(%(topics)s AS text[]), CAST(%(keys)s AS bytea[]), CAST(%(values)s AS bytea[]),
    CAST(CAST(%(headers)s AS text[]) AS jsonb[]), CAST(%(partitions)s AS integer[]), CAST(%(timestamps)s AS bigint[]),
    CAST(CAST(%(event_ids)s AS text[]) AS uuid[])
)

-- name: lock_or_find_busy
-- Locks the keys, or returns the runs whose keys another transaction has locked.
WITH given AS MATERIALIZED (
    SELECT run_id, workorders.outbox_lock_number(workorders.outbox_hash(topic, key)) AS number
    FROM unnest(%(run_ids)s::uuid[], %(topics)s::text[], %(keys)s::bytea[]) AS published (run_id, topic, key)
    WHERE key IS NOT NULL
), busy AS MATERIALIZED (
    SELECT unnest(workorders.outbox_try_lock(array_agg(number))) AS number FROM given
)
SELECT DISTINCT run_id FROM given JOIN busy USING (number);

-- name: last_id
-- 0 before the first message.
SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('workorders.outbox_messages', 'id')::regclass), 0);

-- name: note_published
-- The messages of this transaction are newer than `after_id`. OFFSET 0 keeps it to the end of each bucket, whatever
-- waits.
WITH given AS MATERIALIZED (
    SELECT run_id, event_id, topic, (get_byte(workorders.outbox_hash(topic, key), 4) & 15)::smallint AS bucket
    FROM unnest(%(run_ids)s::uuid[], %(event_ids)s::uuid[], %(topics)s::text[], %(keys)s::bytea[])
        AS published (run_id, event_id, topic, key)
)
INSERT INTO workorders.outbox_published (run_id, id, event_id, bucket, topic)
SELECT given.run_id, message.id, message.event_id, message.bucket, message.topic
FROM (SELECT DISTINCT topic, bucket FROM given) AS place
CROSS JOIN LATERAL (
    SELECT id, event_id, bucket, topic
    FROM workorders.outbox_messages
    WHERE topic = place.topic AND bucket = place.bucket AND id > %(after_id)s
    OFFSET 0
) AS message
JOIN given ON (given.topic, given.bucket, given.event_id) = (message.topic, message.bucket, message.event_id)
ON CONFLICT DO NOTHING;
