-- name: by_interval
-- Numbers of batches grow with the time of their planning, so a step back by number ends at the first that is too old:
-- only the newest batches are read, whatever the table holds.
WITH first AS (
    SELECT triggers.id AS trigger_id, (
        SELECT batches.id
        FROM workorders.kafka_batches AS batches
        WHERE batches.trigger_id = triggers.id AND batches.planned_at < %(planned_since)s
        ORDER BY batches.trigger_id DESC, batches.id DESC
        LIMIT 1
    ) AS id
    FROM workorders.triggers
    WHERE triggers.type = 'kafka'
)
SELECT triggers.name, floor(extract(epoch FROM %(now)s - ranges.finished_at) / %(seconds)s)::integer AS ago,
    sum(ranges.created + ranges.rejected + ranges.filtered)::bigint AS messages
FROM first
JOIN workorders.triggers ON triggers.id = first.trigger_id
JOIN workorders.kafka_batches AS batches
    ON batches.trigger_id = first.trigger_id AND batches.id > coalesce(first.id, 0)
JOIN workorders.kafka_ranges AS ranges ON ranges.batch_id = batches.id
WHERE ranges.finished_at > %(since)s AND ranges.finished_at <= %(now)s
GROUP BY triggers.name, ago;
