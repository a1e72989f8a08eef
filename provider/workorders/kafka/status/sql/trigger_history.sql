-- name: by_interval
-- One look per partition and interval, by the primary key: neither the history of a day nor the batches are read. What
-- came and what was ingested is counted from the look before, which may be some intervals older.
WITH looks AS (
    SELECT triggers.name, intervals.ago, newest.last_stable - newest.next_offset AS lag,
        newest.last_stable - lag(newest.last_stable) OVER log AS arrived,
        newest.ingested - lag(newest.ingested) OVER log AS ingested
    FROM workorders.kafka_ledger AS ledger
    JOIN workorders.triggers ON triggers.id = ledger.trigger_id
    CROSS JOIN generate_series(0, %(intervals)s) AS intervals (ago)
    CROSS JOIN LATERAL (
        SELECT sample.last_stable, sample.next_offset, sample.ingested
        FROM workorders.kafka_lag_samples AS sample
        WHERE (sample.trigger_id, sample.topic, sample.partition) = (ledger.trigger_id, ledger.topic, ledger.partition)
            AND sample.topic_id = ledger.topic_id
            AND sample.minute > %(now)s - (intervals.ago + 1) * %(interval)s
            AND sample.minute <= %(now)s - intervals.ago * %(interval)s
        ORDER BY sample.minute DESC
        LIMIT 1
    ) AS newest
    WINDOW log AS (PARTITION BY ledger.trigger_id, ledger.topic, ledger.partition ORDER BY intervals.ago DESC)
)
SELECT name, ago, sum(greatest(lag, 0))::bigint, coalesce(sum(greatest(arrived, 0)), 0)::bigint,
    coalesce(sum(greatest(ingested, 0)), 0)::bigint
FROM looks
GROUP BY name, ago;
