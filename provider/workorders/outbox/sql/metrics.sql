-- name: topics
-- use: pairs
, waiting AS (
    SELECT pair.topic, sum(counted.messages) AS messages, min(oldest_of_pair.enqueued_at) AS oldest
    FROM pair
    CROSS JOIN LATERAL (
        SELECT count(*) AS messages
        FROM (
            SELECT FROM workorders.outbox_messages AS message
            WHERE message.topic = pair.topic AND message.bucket = pair.bucket
            LIMIT 10000
        ) AS bounded
    ) AS counted
    -- use: oldest_of_pair
    GROUP BY pair.topic
), held AS (
    SELECT topic, count(*) AS messages, min(enqueued_at) AS oldest FROM workorders.outbox_held GROUP BY topic
), known AS (
    SELECT DISTINCT topic FROM workorders.outbox_counters
)
SELECT topic, coalesce(waiting.messages, 0), coalesce(held.messages, 0),
    coalesce(extract(epoch FROM clock_timestamp() - least(waiting.oldest, held.oldest)), 0)
FROM waiting FULL JOIN held USING (topic) FULL JOIN known USING (topic);

-- name: holds
SELECT topic, kind, count(*) FROM workorders.outbox_holds GROUP BY topic, kind;

-- name: messages
SELECT counters.topic, counts.outcome, sum(counts.messages)
FROM workorders.outbox_counters AS counters
CROSS JOIN LATERAL (
    VALUES ('sent', counters.sent), ('compacted', counters.compacted), ('failed', counters.failed)
) AS counts (outcome, messages)
GROUP BY counters.topic, counts.outcome;

-- name: shards
SELECT shard.shard, (shard.owner IS NOT NULL AND shard.leased_until >= clock_timestamp())::integer,
    (shard.last_error IS NOT NULL)::integer
FROM workorders.outbox_shards AS shard CROSS JOIN workorders.outbox_identity AS identity
WHERE shard.shard < coalesce(identity.shards, 1);
