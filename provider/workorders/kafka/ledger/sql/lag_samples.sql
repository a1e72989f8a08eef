-- name: record
-- In one order, because two triggerers may record the same trigger for a moment.
INSERT INTO workorders.kafka_lag_samples
    (trigger_id, topic, partition, minute, observed_at, topic_id, next_offset, last_stable)
SELECT ledger.trigger_id, ledger.topic, ledger.partition, date_trunc('minute', now()), now(), ledger.topic_id,
    ledger.next_offset, given.last_stable
FROM unnest(%(topics)s::text[], %(topic_ids)s::text[], %(partitions)s::integer[], %(ends)s::bigint[])
    AS given (topic, topic_id, partition, last_stable)
JOIN workorders.triggers ON triggers.name = %(trigger)s
JOIN workorders.kafka_ledger AS ledger
    ON (ledger.trigger_id, ledger.topic, ledger.partition, ledger.topic_id)
        = (triggers.id, given.topic, given.partition, given.topic_id)
ORDER BY ledger.topic, ledger.partition
ON CONFLICT (trigger_id, topic, partition, minute) DO UPDATE
SET observed_at = excluded.observed_at,
    topic_id = excluded.topic_id,
    next_offset = excluded.next_offset,
    last_stable = excluded.last_stable;

-- name: delete_old
DELETE FROM workorders.kafka_lag_samples
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM workorders.kafka_lag_samples WHERE minute < %(before)s LIMIT %(limit)s
));
