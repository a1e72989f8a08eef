-- name: keep_verdict
-- The batch's epoch, for an older attempt must not speak here.
UPDATE workorders.kafka_ranges AS ranges
SET breaker_rules = %(rules)s,
    breaker_verdict = %(verdict)s
FROM workorders.kafka_batches AS batches
WHERE batches.id = ranges.batch_id
    AND batches.epoch = %(epoch)s
    AND ranges.batch_id = %(batch_id)s
    AND ranges.topic = %(topic)s
    AND ranges.partition = %(partition)s
    AND ranges.finished_at IS NULL
    AND ranges.superseded_by IS NULL;

-- name: forget_verdicts
UPDATE workorders.kafka_ranges
SET breaker_rules = NULL,
    breaker_verdict = NULL
WHERE batch_id = %(batch_id)s AND breaker_verdict IS NOT NULL;
