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

-- name: note_published
INSERT INTO workorders.outbox_published (run_id, id, event_id, bucket, topic)
SELECT run_id, id, event_id, get_byte(workorders.outbox_hash(topic, key), 4) & 15, topic
FROM unnest(%(run_ids)s::uuid[], %(ids)s::bigint[], %(event_ids)s::uuid[], %(topics)s::text[], %(keys)s::bytea[])
    AS published (run_id, id, event_id, topic, key);
