-- name: keep_transaction
-- The transaction idles as long as Spark reads. Postgres detects a client whose machine has died within a minute; the
-- system's default is two hours.
SELECT set_config(name, value, true)
FROM (VALUES
    ('idle_in_transaction_session_timeout', '0'),
    ('tcp_keepalives_idle', '30'),
    ('tcp_keepalives_interval', '10'),
    ('tcp_keepalives_count', '3')
) AS settings (name, value);

-- name: hold_attempt
SELECT pg_advisory_xact_lock_shared(%(class)s, hashint8(%(batch_id)s));

-- name: try_exclude_attempts
SELECT id
FROM unnest(%(batch_ids)s::bigint[]) AS batches (id)
WHERE pg_try_advisory_xact_lock(%(class)s, hashint8(id));
