-- name: stay
-- The transaction idles as long as Spark reads. A client whose machine is gone is found out by Postgres itself, within a
-- minute, where the system's own default would be two hours.
SELECT set_config(name, value, true)
FROM (VALUES
    ('idle_in_transaction_session_timeout', '0'),
    ('tcp_keepalives_idle', '30'),
    ('tcp_keepalives_interval', '10'),
    ('tcp_keepalives_count', '3')
) AS settings (name, value);

-- name: hold_attempt
SELECT pg_advisory_xact_lock_shared(hashtextextended('workorders attempt', %(batch_id)s));

-- name: try_exclude_attempts
SELECT pg_try_advisory_xact_lock(hashtextextended('workorders attempt', %(batch_id)s));
