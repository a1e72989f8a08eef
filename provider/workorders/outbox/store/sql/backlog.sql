-- block: due
next_try_at <= clock_timestamp() AND (
    -- A held key waits while its topic is held. Once both are due, either may be retried: all messages of the topic may
    -- have held keys.
    kind = 'key' AND bucket = ANY (%(buckets)s) AND NOT EXISTS (
        SELECT FROM workorders.outbox_holds AS of_topic WHERE of_topic.kind = 'topic' AND of_topic.topic = hold.topic
            AND (of_topic.next_try_at <= clock_timestamp()) IS NOT TRUE
    )
    -- A topic is retried by a shard that has messages of it.
    OR kind = 'topic' AND EXISTS (
        SELECT FROM workorders.outbox_messages AS message
        WHERE message.topic = hold.topic AND message.bucket = ANY (%(buckets)s)
    )
)

-- block: pairs
-- Steps from one topic and bucket to the next by the index.
WITH RECURSIVE pair AS (
    (SELECT topic, bucket FROM workorders.outbox_messages ORDER BY topic, bucket LIMIT 1)
    UNION ALL
    SELECT following.topic, following.bucket FROM pair CROSS JOIN LATERAL (
        SELECT message.topic, message.bucket FROM workorders.outbox_messages AS message
        WHERE (message.topic, message.bucket) > (pair.topic, pair.bucket)
        ORDER BY message.topic, message.bucket LIMIT 1
    ) AS following
)

-- block: oldest_of_pair
CROSS JOIN LATERAL (
    SELECT message.enqueued_at FROM workorders.outbox_messages AS message
    WHERE message.topic = pair.topic AND message.bucket = pair.bucket
    ORDER BY message.id LIMIT 1
) AS oldest_of_pair

-- name: is_anything_waiting
-- Whether there is a message to send, or a hold that is due.
-- use: pairs
SELECT EXISTS (
    SELECT FROM pair WHERE bucket = ANY (%(buckets)s) AND NOT EXISTS (
        SELECT FROM workorders.outbox_holds AS hold WHERE hold.kind = 'topic' AND hold.topic = pair.topic
    )
) OR EXISTS (
    SELECT FROM workorders.outbox_holds AS hold WHERE
    -- use: due
)

-- name: next_due_hold
SELECT id, kind, topic FROM workorders.outbox_holds AS hold WHERE
-- use: due
ORDER BY next_try_at LIMIT 1

-- name: read
-- Topics share a batch evenly, and so do the buckets of a topic. Within a bucket the oldest rows come first.
-- use: pairs
, requested AS (
    SELECT topic, bucket FROM pair
    WHERE bucket = ANY (%(buckets)s)
        AND (%(only)s::text IS NULL OR topic = %(only)s)
        AND (%(only)s::text IS NOT NULL OR NOT EXISTS (
            SELECT FROM workorders.outbox_holds AS hold WHERE hold.kind = 'topic' AND hold.topic = pair.topic
        ))
)
, share AS MATERIALIZED (
    SELECT topic, bucket,
        greatest(1, %(messages)s / (SELECT count(DISTINCT topic) FROM requested) / count(*) OVER topics) AS messages,
        greatest(1, %(bytes)s / (SELECT count(DISTINCT topic) FROM requested) / count(*) OVER topics) AS bytes
    FROM requested WINDOW topics AS (PARTITION BY topic)
    -- If more buckets wait than fit into a batch, chance picks among them each time.
    ORDER BY random() LIMIT %(messages)s
)
-- Rows are streamed as they are found: writing the claim in the same statement would copy them first.
SELECT id, share.topic, key, value, headers, partition, timestamp_ms, CASE WHEN %(event_ids)s THEN event_id::text END,
    share.bucket
FROM share CROSS JOIN LATERAL (
    SELECT waiting.id, waiting.key, waiting.value, waiting.headers, waiting.partition, waiting.timestamp_ms,
        waiting.event_id, sum(size.bytes) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) - size.bytes AS bytes_before
    FROM workorders.outbox_messages AS waiting CROSS JOIN LATERAL (
        SELECT coalesce(octet_length(value), 0) + coalesce(octet_length(key), 0)
            + coalesce(octet_length(headers::text), 0) AS bytes
    ) AS size
    WHERE waiting.topic = share.topic AND waiting.bucket = share.bucket
    ORDER BY id LIMIT share.messages
) AS message
WHERE bytes_before < share.bytes AND NOT EXISTS (
    SELECT FROM workorders.outbox_holds AS hold
    WHERE hold.kind = 'key' AND hold.topic = share.topic AND hold.bucket = share.bucket AND hold.key = message.key
)

-- name: take_oldest
-- The oldest row of a held key is retried alone.
UPDATE workorders.outbox_messages SET hold_id = NULL, bucket = ~bucket
WHERE hold_id = %(hold)s AND id = (SELECT min(id) FROM workorders.outbox_messages WHERE hold_id = %(hold)s)
RETURNING id, topic, key, value, headers, partition, timestamp_ms, event_id::text, bucket
