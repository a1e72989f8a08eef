-- name: by_interval
-- One look per partition and interval, by the primary key: the history of a day is never read.
SELECT triggers.name, intervals.ago, sum(greatest(newest.last_stable - newest.next_offset, 0))::bigint AS lag,
    sum(newest.last_stable)::bigint AS last_stable
FROM workorders.kafka_ledger AS ledger
JOIN workorders.triggers ON triggers.id = ledger.trigger_id
CROSS JOIN generate_series(0, %(intervals)s - 1) AS intervals (ago)
CROSS JOIN LATERAL (
    SELECT sample.last_stable, sample.next_offset
    FROM workorders.kafka_lag_samples AS sample
    WHERE (sample.trigger_id, sample.topic, sample.partition) = (ledger.trigger_id, ledger.topic, ledger.partition)
        AND sample.topic_id = ledger.topic_id
        AND sample.minute > %(now)s - (intervals.ago + 1) * %(interval)s
        AND sample.minute <= %(now)s - intervals.ago * %(interval)s
    ORDER BY sample.minute DESC
    LIMIT 1
) AS newest
GROUP BY triggers.name, intervals.ago;
