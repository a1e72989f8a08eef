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
SELECT pg_advisory_xact_lock_shared(hashtextextended('workorders attempt', %(batch_id)s));

-- name: try_take
-- For the transaction that holds the attempt's lock. At most one task takes the batches of a trigger.
SELECT pg_try_advisory_xact_lock(hashtextextended('workorders taking', %(trigger_id)s));

-- name: batch_exists
SELECT EXISTS (SELECT FROM workorders.kafka_batches WHERE id = %(batch_id)s);

-- name: try_exclude_attempts
SELECT id
FROM unnest(%(batch_ids)s::bigint[]) AS batches (id)
WHERE pg_try_advisory_xact_lock(hashtextextended('workorders attempt', id));
