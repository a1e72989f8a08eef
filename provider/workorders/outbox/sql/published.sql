-- name: published
-- A message is looked for where it waits, by its key there; messages that are held are few.
SELECT runs.id AS run_id, runs.attempt, published.topic, published.event_id,
    CASE
        WHEN held.hold_id IS NOT NULL THEN 'held'
        WHEN message.id IS NOT NULL THEN 'waiting'
        ELSE 'sent'
    END AS state, held.hold_id
FROM workorders.runs
JOIN workorders.outbox_published AS published ON published.run_id = runs.id
LEFT JOIN LATERAL (
    SELECT id
    FROM workorders.outbox_messages
    WHERE topic = published.topic AND bucket = published.bucket AND id = published.id
    OFFSET 0
) AS message ON true
LEFT JOIN workorders.outbox_held AS held ON (held.id, held.event_id) = (published.id, published.event_id)
WHERE runs.work_order_id = %(work_order_id)s
ORDER BY published.id
LIMIT %(limit)s;
