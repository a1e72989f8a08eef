-- name: acquire
-- Acquires keys that are free or expired, and those of a work order that a replay restores. It waits for a key that
-- another transaction is acquiring; a row that it leaves unchanged is locked too. The window begins here, near the end of
-- the transaction: if it began at the start, a short window could end before the key is committed.
INSERT INTO workorders.idempotency_keys AS stored (trigger_id, key, work_order_id, stream_id, position, expires_at)
SELECT %(trigger_id)s, given.key, given.id, given.stream_id, given.position,
    clock_timestamp() + make_interval(secs => %(window_seconds)s)
FROM unnest(%(keys)s::uuid[], %(ids)s::uuid[], %(stream_ids)s::integer[], %(positions)s::bigint[])
    WITH ORDINALITY AS given (key, id, stream_id, position, place)
ORDER BY given.place
ON CONFLICT (trigger_id, key) DO UPDATE
SET work_order_id = EXCLUDED.work_order_id,
    stream_id = EXCLUDED.stream_id,
    position = EXCLUDED.position,
    expires_at = EXCLUDED.expires_at
WHERE stored.expires_at <= now() OR (stored.stream_id, stored.position) = (EXCLUDED.stream_id, EXCLUDED.position);

-- name: known
-- The given keys that have a row, and whether it is valid. A valid key stays valid for this transaction, even if its
-- row changes, so no row is locked. Each is looked up by the index, because a plain join of many keys could read the
-- whole table.
SELECT stored.key, stored.work_order_id, stored.position, stored.stream_id, coalesce(stored.expires_at > now(), true)
FROM unnest(%(keys)s::uuid[]) AS given (key)
CROSS JOIN LATERAL (
    SELECT key, work_order_id, position, stream_id, expires_at
    FROM workorders.idempotency_keys
    WHERE trigger_id = %(trigger_id)s AND key = given.key
    OFFSET 0
) AS stored;

-- name: expiry
-- In microseconds since the year 2000, as Postgres copies times; from here, as in `acquire`.
SELECT (
    extract(epoch FROM clock_timestamp() + make_interval(secs => %(window_seconds)s) - timestamptz '2000-01-01 UTC')
    * 1000000
)::bigint;

-- name: release
DELETE FROM workorders.idempotency_keys
WHERE trigger_id = %(trigger_id)s
    AND key = ANY (%(keys)s::uuid[])
    AND work_order_id = ANY (%(ids)s::uuid[]);

-- name: expire
DELETE FROM workorders.idempotency_keys AS stored
USING (
    SELECT trigger_id, key
    FROM workorders.idempotency_keys
    WHERE expires_at <= now()
    ORDER BY expires_at
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
) AS expired
WHERE (stored.trigger_id, stored.key) = (expired.trigger_id, expired.key);
