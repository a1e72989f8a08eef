-- block: gap
    triggers.name AS trigger, sequences.key, sequences.name, sequences.high_water_mark, next.number AS next_parked,
    next.work_order_id AS next_id, sequences.parked, sequences.parked_since

-- block: with_next
JOIN workorders.triggers ON triggers.id = sequences.trigger_id
CROSS JOIN LATERAL (
    SELECT number, work_order_id
    FROM workorders.parked_work_orders AS parked
    WHERE parked.trigger_id = sequences.trigger_id AND parked.key = sequences.key
    ORDER BY number
    LIMIT 1
) AS next

-- name: gaps
-- The oldest of the first ones that the index has: where very many sequences wait, a page must not read all of them.
SELECT
    -- use: gap
FROM (
    SELECT *
    FROM (
        SELECT *
        FROM workorders.sequences
        WHERE parked > 0
            AND trigger_id IN (
                SELECT triggers.id
                FROM workorders.triggers
                JOIN workorders.workflows ON workflows.id = triggers.workflow_id
                WHERE (%(trigger)s::text IS NULL OR triggers.name = %(trigger)s)
                    AND (%(workflow)s::text IS NULL OR workflows.name = %(workflow)s)
            )
        LIMIT %(max_read)s
    ) AS first
    ORDER BY parked_since, trigger_id, key
    LIMIT %(limit)s
) AS sequences
-- use: with_next
ORDER BY sequences.parked_since, triggers.name, sequences.key;

-- name: gap_before
SELECT own.number,
    -- use: gap
FROM workorders.parked_work_orders AS own
JOIN workorders.sequences ON sequences.trigger_id = own.trigger_id AND sequences.key = own.key
-- use: with_next
WHERE own.work_order_id = %(work_order_id)s;

-- name: known
SELECT key
FROM workorders.sequences
WHERE trigger_id = %(trigger_id)s AND key = ANY (%(keys)s::uuid[])
ORDER BY key;

-- name: parked_of
SELECT number, work_order_id
FROM workorders.parked_work_orders
WHERE trigger_id = %(trigger_id)s AND key = %(key)s;

-- name: record
INSERT INTO workorders.sequence_decisions (actor, reason, trigger_id, key, kind, from_number, to_number, released, account)
VALUES (%(actor)s, %(reason)s, %(trigger_id)s, %(key)s, %(kind)s, %(from_number)s, %(to_number)s, %(released)s, %(account)s);

-- name: drop
DELETE FROM workorders.sequences WHERE trigger_id = %(trigger_id)s AND key = %(key)s;
