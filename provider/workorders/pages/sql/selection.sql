-- name: limit_time
-- Until the transaction ends.
SELECT set_config('statement_timeout', %(milliseconds)s::integer::text, true);
