-- name: topics
-- labels: topic
-- gauge: workorders.outbox.waiting, {message}
--   Messages that wait for the relay; counted up to 10,000 for each of a topic's 16 groups of keys.
-- gauge: workorders.outbox.held, {message}
--   Messages of a held key, or held alone; counted in the same way.
-- gauge: workorders.outbox.delay, s
--   Age of the oldest message that waits or is held; 0 if there is none.
-- use: pairs
, stored AS (
    SELECT pair.topic, sum(counted.messages) FILTER (WHERE pair.bucket >= 0) AS waiting,
        sum(counted.messages) FILTER (WHERE pair.bucket < 0) AS held, min(oldest_of_pair.enqueued_at) AS oldest
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
), known AS (
    SELECT DISTINCT topic FROM workorders.outbox_counters
)
SELECT topic, coalesce(stored.waiting, 0), coalesce(stored.held, 0),
    coalesce(extract(epoch FROM clock_timestamp() - stored.oldest), 0)
FROM stored FULL JOIN known USING (topic);

-- name: holds
-- labels: topic, kind
-- gauge: workorders.outbox.holds, {hold}, absent is 0
--   Holds of a topic, by kind: topic, key, or message.
SELECT topic, kind, count(*) FROM workorders.outbox_holds GROUP BY topic, kind;

-- name: messages
-- labels: topic, outcome
-- counter: workorders.outbox.messages, {message}
--   Messages that were sent, compacted (a later one with the key was sent), or refused (failed).
SELECT counters.topic, counts.outcome, sum(counts.messages)
FROM workorders.outbox_counters AS counters
CROSS JOIN LATERAL (
    VALUES ('sent', counters.sent), ('compacted', counters.compacted), ('failed', counters.failed)
) AS counts (outcome, messages)
GROUP BY counters.topic, counts.outcome;

-- name: shards
-- labels: shard
-- gauge: workorders.outbox.shard.leased, 1
--   1 if a relay works on the shard, otherwise 0.
-- gauge: workorders.outbox.shard.failed, 1
--   1 if the shard's last relay failed, otherwise 0.
SELECT shard.shard, (shard.owner IS NOT NULL AND shard.leased_until >= clock_timestamp())::integer,
    (shard.last_error IS NOT NULL)::integer
FROM workorders.outbox_shards AS shard CROSS JOIN workorders.outbox_identity AS identity
WHERE shard.shard < coalesce(identity.shards, 1);
