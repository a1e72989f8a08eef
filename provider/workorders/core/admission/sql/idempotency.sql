-- name: acquire
-- The keys that are free, or over, or the work order's own, which a replay restores. A key that another transaction is
-- taking is waited for, and then is not free: a row that stays as it is, is locked all the same. The window counts from
-- here, near the end of the transaction: from its start, a short one could be over before the key is committed.
INSERT INTO workorders.idempotency_keys AS kept (trigger_id, key, work_order_id, stream_id, position, expires_at)
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
WHERE kept.expires_at <= now() OR (kept.stream_id, kept.position) = (EXCLUDED.stream_id, EXCLUDED.position);

-- name: holders
-- Of the keys that were to be taken, those that another work order holds. Each is looked up by the index: a plain join
-- of many keys could read the whole table.
SELECT kept.key, kept.work_order_id
FROM unnest(%(keys)s::uuid[], %(ids)s::uuid[]) AS given (key, id)
CROSS JOIN LATERAL (
    SELECT key, work_order_id
    FROM workorders.idempotency_keys
    WHERE trigger_id = %(trigger_id)s AND key = given.key
    OFFSET 0
) AS kept
WHERE kept.work_order_id <> given.id;

-- name: known
-- Those of the keys that have a row, and whether it counts. What counts now does so for this whole transaction, whatever
-- becomes of the row, so none is locked.
SELECT kept.key, kept.work_order_id, kept.position, kept.stream_id, coalesce(kept.expires_at > now(), true)
FROM unnest(%(keys)s::uuid[]) AS given (key)
CROSS JOIN LATERAL (
    SELECT key, work_order_id, position, stream_id, expires_at
    FROM workorders.idempotency_keys
    WHERE trigger_id = %(trigger_id)s AND key = given.key
    OFFSET 0
) AS kept;

-- name: find_holder
SELECT work_order_id
FROM workorders.idempotency_keys
WHERE trigger_id = %(trigger_id)s AND key = %(key)s AND coalesce(expires_at > now(), true);

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
DELETE FROM workorders.idempotency_keys AS kept
USING (
    SELECT trigger_id, key
    FROM workorders.idempotency_keys
    WHERE expires_at <= now()
    ORDER BY expires_at
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
) AS over
WHERE (kept.trigger_id, kept.key) = (over.trigger_id, over.key);
