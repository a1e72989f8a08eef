-- name: acquire
-- The time is read after the row is locked, so that transactions that waited for it do not fill the bucket twice.
INSERT INTO workorders.trigger_rates AS stored (trigger_id, last_granted, tokens, filled_at)
VALUES (%(trigger_id)s, true, %(burst)s::double precision - 1, clock_timestamp())
ON CONFLICT (trigger_id) DO UPDATE
SET (last_granted, tokens, filled_at) = (
    SELECT filled.tokens >= 1, filled.tokens - (filled.tokens >= 1)::integer, filled.at
    FROM (
        SELECT now.at, least(
            %(burst)s::double precision,
            stored.tokens
                + greatest(extract(epoch FROM now.at - stored.filled_at), 0)::double precision
                * %(per_second)s::double precision
        ) AS tokens
        FROM (SELECT clock_timestamp() AS at OFFSET 0) AS now
        OFFSET 0
    ) AS filled
)
RETURNING last_granted, tokens;
