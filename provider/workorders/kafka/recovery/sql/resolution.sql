-- name: lock_ledger
-- An attempt that is about to commit holds the row: it is not waited for, and not overtaken.
SELECT partition
FROM workorders.kafka_ledger
WHERE trigger_id = %(trigger_id)s AND topic = %(topic)s AND partition = ANY (%(partitions)s)
ORDER BY partition
FOR UPDATE NOWAIT;

-- name: facts
-- Only virtual partitions, and what was stored before the ledger was set back, are after its position.
SELECT ledger.partition, ledger.topic_id, ledger.next_offset, ledger.stored_end, ledger.start_offset, ledger.generation,
    ranges.topic_id AS held_topic_id, ranges.start_offset AS held_start, ranges.end_offset AS held_end, ranges.batch_id,
    CASE WHEN ledger.stored_end > ledger.next_offset THEN (
        SELECT min(position)
        FROM workorders.work_orders
        WHERE work_orders.stream_id = ledger.stream_id AND position >= ledger.next_offset
    ) END AS first_stored, workflows.kept_days
FROM workorders.kafka_ledger AS ledger
JOIN workorders.triggers ON triggers.id = ledger.trigger_id
JOIN workorders.workflows ON workflows.id = triggers.workflow_id
LEFT JOIN workorders.kafka_unfinished_ranges AS ranges
    ON (ranges.trigger_id, ranges.topic, ranges.partition) = (ledger.trigger_id, ledger.topic, ledger.partition)
WHERE triggers.name = %(trigger)s AND ledger.topic = %(topic)s
ORDER BY ledger.partition;

-- name: insert_decision
INSERT INTO workorders.kafka_decisions (actor, reason, trigger_id, topic, partition, kind, from_topic_id, from_offset,
    to_topic_id, to_offset, lost_start, lost_end, superseded_batch_id, account)
VALUES (%(actor)s, %(reason)s, %(trigger_id)s, %(topic)s, %(partition)s, %(kind)s, %(from_topic_id)s, %(from_offset)s,
    %(to_topic_id)s, %(to_offset)s, %(lost_start)s, %(lost_end)s, %(superseded_batch)s, %(account)s)
RETURNING id;

-- name: supersede_range
UPDATE workorders.kafka_ranges
SET superseded_by = %(decision_id)s, last_error = NULL
WHERE batch_id = %(batch_id)s
    AND topic = %(topic)s
    AND partition = %(partition)s
    AND finished_at IS NULL
    AND superseded_by IS NULL;

-- name: set_position
-- The new epoch fences every earlier attempt, even one that still runs, and no attempt at the superseded batch gets it
-- again. The estimate of the messages' size stays.
WITH superseded AS (
    UPDATE workorders.kafka_batches AS batches
    SET epoch = greatest(batches.epoch, ledger.epoch) + 1
    FROM workorders.kafka_ledger AS ledger
    WHERE batches.id = %(superseded_batch)s
        AND (ledger.trigger_id, ledger.topic, ledger.partition) = (%(trigger_id)s, %(topic)s, %(partition)s)
    RETURNING batches.epoch
)
UPDATE workorders.kafka_ledger
SET topic_id = %(to_topic_id)s,
    cluster_id = CASE WHEN topic_id = %(to_topic_id)s THEN cluster_id ELSE %(cluster_id)s END,
    stream_id = %(stream_id)s,
    generation = %(generation)s,
    start_offset = %(start_offset)s,
    next_offset = %(to_offset)s,
    stored_end = CASE WHEN %(is_new_log)s THEN %(to_offset)s ELSE stored_end END,
    epoch = coalesce((SELECT epoch FROM superseded), epoch + 1),
    status = 'active',
    status_since = CASE WHEN status = 'active' THEN status_since ELSE now() END,
    attempts = 0,
    next_attempt_at = NULL,
    last_error = NULL
WHERE trigger_id = %(trigger_id)s AND topic = %(topic)s AND partition = %(partition)s;

-- name: decisions
SELECT decisions.id, decisions.decided_at, decisions.actor, decisions.reason, triggers.name AS trigger, decisions.topic,
    decisions.partition, decisions.kind, decisions.from_topic_id, decisions.from_offset, decisions.to_topic_id,
    decisions.to_offset, decisions.lost_start, decisions.lost_end, decisions.superseded_batch_id, decisions.account
FROM workorders.kafka_decisions AS decisions
JOIN workorders.triggers ON triggers.id = decisions.trigger_id
WHERE (%(trigger)s::text IS NULL OR triggers.name = %(trigger)s)
    AND (%(before)s::bigint IS NULL OR decisions.id < %(before)s)
ORDER BY decisions.id DESC
LIMIT %(limit)s;
