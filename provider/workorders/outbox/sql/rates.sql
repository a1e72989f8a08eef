-- name: by_interval
SELECT shard, floor(extract(epoch FROM %(now)s - minute) / %(seconds)s)::integer AS ago, sum(sent)::bigint AS sent,
    max(max_delay_seconds) AS max_delay_seconds
FROM workorders.outbox_minutes
WHERE minute > %(since)s AND minute <= %(now)s
GROUP BY shard, ago;

-- name: enqueued
-- How many messages were enqueued since a note that is long enough ago, and in how many seconds.
SELECT pg_stat_get_tuples_inserted('workorders.outbox_messages'::regclass) - enqueued,
    extract(epoch FROM clock_timestamp() - noted_at)::double precision
FROM workorders.outbox_minutes
WHERE noted_at > %(since)s AND noted_at <= %(before)s
ORDER BY noted_at DESC
LIMIT 1;

-- name: oldest
-- use: pairs
SELECT least(
    (
        SELECT min(oldest_of_pair.enqueued_at)
        FROM pair
        -- use: oldest_of_pair
    ),
    (SELECT min(enqueued_at) FROM workorders.outbox_held)
);

-- name: delete_old
DELETE FROM workorders.outbox_minutes
WHERE ctid = ANY (ARRAY(SELECT ctid FROM workorders.outbox_minutes WHERE minute < %(before)s LIMIT %(limit)s));
