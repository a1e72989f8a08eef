-- name: batch_of_position
-- A decision to go back puts an offset into several batches. The newest one that was planned before the work order was
-- created has created it. A thousand ranges bound the search.
SELECT batches.id
FROM (
    SELECT ranges.batch_id, ranges.topic_id, ranges.generation, ranges.end_offset
    FROM workorders.kafka_ranges AS ranges
    JOIN workorders.triggers ON triggers.id = ranges.trigger_id
    WHERE triggers.name = %(trigger)s
        AND ranges.topic = %(topic)s
        AND ranges.partition = %(partition)s
        AND ranges.start_offset <= %(position)s
    ORDER BY ranges.start_offset DESC
    LIMIT 1000
) AS near
JOIN workorders.kafka_batches AS batches ON batches.id = near.batch_id
WHERE near.topic_id = %(topic_id)s AND near.generation = %(generation)s AND near.end_offset > %(position)s
ORDER BY batches.planned_at <= %(created_at)s DESC,
    CASE WHEN batches.planned_at <= %(created_at)s THEN -batches.id ELSE batches.id END
LIMIT 1;
