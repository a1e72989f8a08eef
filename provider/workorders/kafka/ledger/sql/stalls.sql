-- name: claim_stalled
-- One statement finds and records, so one of several concurrent callers gets the stall. The clock is the database's.
-- SKIP LOCKED leaves a row to the next caller if it is being ingested or claimed now.
WITH due AS (
    SELECT ledger.trigger_id, ledger.topic, ledger.partition
    FROM workorders.kafka_ledger AS ledger
    WHERE ledger.trigger_id = %(trigger_id)s
        AND ledger.status = 'stalled'
        AND ledger.alerted_since IS DISTINCT FROM ledger.status_since
        AND extract(epoch FROM now() - ledger.status_since) >= %(after_seconds)s
    FOR UPDATE SKIP LOCKED
)
UPDATE workorders.kafka_ledger AS ledger
SET alerted_since = ledger.status_since
FROM due
LEFT JOIN workorders.kafka_unfinished_ranges AS ranges USING (trigger_id, topic, partition)
WHERE (ledger.trigger_id, ledger.topic, ledger.partition) = (due.trigger_id, due.topic, due.partition)
RETURNING ledger.topic, ledger.partition, ledger.next_offset, ledger.status_since, ranges.end_offset, ledger.attempts,
    ledger.last_error;

-- name: claim_cleared
-- A stall has ended if its partition moved, or if another stall has begun since.
WITH due AS (
    SELECT ledger.trigger_id, ledger.topic, ledger.partition, ledger.alerted_since
    FROM workorders.kafka_ledger AS ledger
    WHERE ledger.trigger_id = %(trigger_id)s
        AND ledger.alerted_since IS NOT NULL
        AND (ledger.status <> 'stalled' OR ledger.status_since <> ledger.alerted_since)
    FOR UPDATE SKIP LOCKED
)
UPDATE workorders.kafka_ledger AS ledger
SET alerted_since = NULL
FROM due
WHERE (ledger.trigger_id, ledger.topic, ledger.partition) = (due.trigger_id, due.topic, due.partition)
RETURNING ledger.topic, ledger.partition, ledger.next_offset, due.alerted_since;
