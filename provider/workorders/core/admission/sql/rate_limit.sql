-- name: take
-- The time is read once the row is locked, so that those who waited for it do not fill the bucket twice.
INSERT INTO workorders.trigger_rates AS kept (trigger_id, granted, held, filled_at)
VALUES (%(trigger_id)s, true, %(burst)s::double precision - 1, clock_timestamp())
ON CONFLICT (trigger_id) DO UPDATE
SET (granted, held, filled_at) = (
    SELECT filled.held >= 1, filled.held - (filled.held >= 1)::integer, filled.at
    FROM (
        SELECT now.at, least(
            %(burst)s::double precision,
            kept.held
                + greatest(extract(epoch FROM now.at - kept.filled_at), 0)::double precision
                * %(per_second)s::double precision
        ) AS held
        FROM (SELECT clock_timestamp() AS at OFFSET 0) AS now
        OFFSET 0
    ) AS filled
)
RETURNING granted, held;
