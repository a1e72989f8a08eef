-- block: gap
    triggers.name AS trigger, sequences.key, sequences.name, sequences.high_water_mark, next.number AS next_parked,
    next.work_order_id AS next_id, sequences.parked, sequences.parked_since,
    sequences.alerted_since IS NOT NULL AS alerted

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
        WHERE (parked > 0 OR alerted_since IS NOT NULL) AND parked > 0
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

-- name: record
INSERT INTO workorders.sequence_decisions (actor, reason, trigger_id, key, kind, from_number, to_number, released, account)
VALUES (%(actor)s, %(reason)s, %(trigger_id)s, %(key)s, %(kind)s, %(from_number)s, %(to_number)s, %(released)s, %(account)s);

-- name: drop
DELETE FROM workorders.sequences WHERE trigger_id = %(trigger_id)s AND key = %(key)s;

-- name: claim_alerts
-- The statement that finds a gap also records its alert, so of concurrent callers one gets the gap. A locked row is being
-- decided at this moment, and is left to the next caller. A gap that was alerted of has closed if its time is not that of
-- the present gap, which may be due as well.
WITH due AS (
    SELECT sequences.trigger_id, sequences.key, alerted_since AS closed_since, present.open_since
    FROM workorders.sequences
    JOIN workorders.triggers ON triggers.id = sequences.trigger_id
    CROSS JOIN LATERAL (
        SELECT CASE
            WHEN parked > (definition #>> '{sequence,alert_above_parked}')::integer
                OR parked_since
                    <= now() - make_interval(secs => (definition #>> '{sequence,alert_after}')::double precision)
            THEN parked_since
        END AS open_since
    ) AS present
    WHERE sequences.trigger_id = %(trigger_id)s
        AND (parked > 0 OR alerted_since IS NOT NULL)
        AND alerted_since IS DISTINCT FROM parked_since
        AND coalesce(alerted_since, present.open_since) IS NOT NULL
    FOR UPDATE OF sequences SKIP LOCKED
)
UPDATE workorders.sequences
SET alerted_since = due.open_since
FROM due
WHERE (sequences.trigger_id, sequences.key) = (due.trigger_id, due.key)
RETURNING sequences.key, sequences.high_water_mark, sequences.parked, due.closed_since, due.open_since;

-- name: watched
SELECT name, coalesce(nullif(definition -> 'notify', 'null'), '[]')
FROM workorders.triggers
WHERE jsonb_typeof(definition -> 'sequence') = 'object'
ORDER BY name;
