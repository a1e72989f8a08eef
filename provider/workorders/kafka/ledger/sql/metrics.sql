-- block: of_partition
FROM workorders.kafka_lag_samples AS sample
    WHERE (sample.trigger_id, sample.topic, sample.partition) = (ledger.trigger_id, ledger.topic, ledger.partition)

-- block: of_log
-- Offsets of a topic that was re-created count other messages.
    -- use: of_partition
        AND sample.topic_id = ledger.topic_id

-- name: partitions
-- labels: trigger, topic, partition
-- gauge: workorders.ingest.lag, {message}
--   Offsets without a work order, up to the last stable one; some hold no message. There is no value if the listener
--   has not looked for two minutes.
-- gauge: workorders.ingest.oldest_age, s
--   Maximum age of the oldest message without a work order, to a minute; 0 if there is none.
-- gauge: workorders.ingest.no_progress_age, s
--   Time for which messages wait and none has become a work order, to a minute; 0 if none waits.
-- A look that is older than two minutes shows nothing of now, and a number that does not move looks like one that is
-- measured.
SELECT triggers.name, ledger.topic, ledger.partition,
    greatest(newest.last_stable - ledger.next_offset, 0),
    coalesce(extract(epoch FROM now() - coalesce(seen.caught_up_at, seen.first_at)), 0),
    coalesce(extract(epoch FROM now() - coalesce(seen.moved_at, seen.first_at)), 0)
FROM workorders.kafka_ledger AS ledger
JOIN workorders.triggers ON triggers.id = ledger.trigger_id
CROSS JOIN LATERAL (
    SELECT last_stable, observed_at
    -- use: of_log
    ORDER BY minute DESC
    LIMIT 1
) AS newest
-- What is not read yet came after the last look that saw nothing behind the ledger's position.
LEFT JOIN LATERAL (
    SELECT min(observed_at) AS first_at,
        max(observed_at) FILTER (WHERE sample.last_stable <= ledger.next_offset) AS caught_up_at,
        max(observed_at) FILTER (
            WHERE sample.next_offset <> ledger.next_offset OR sample.last_stable <= ledger.next_offset
        ) AS moved_at
    -- use: of_log
) AS seen ON newest.last_stable > ledger.next_offset
WHERE newest.observed_at > now() - interval '2 minutes';

-- name: triggers
-- labels: trigger
-- gauge: workorders.ingest.poll_age, s
--   Time since the listener last asked Kafka how far the topics go. It grows while the Dag is paused.
-- gauge: workorders.ingest.stalled, {partition}
--   Stalled partitions.
SELECT triggers.name, extract(epoch FROM now() - max(newest.observed_at)),
    count(*) FILTER (WHERE ledger.status = 'stalled')
FROM workorders.kafka_ledger AS ledger
JOIN workorders.triggers ON triggers.id = ledger.trigger_id
LEFT JOIN LATERAL (
    SELECT observed_at
    -- use: of_partition
    ORDER BY minute DESC
    LIMIT 1
) AS newest ON true
GROUP BY triggers.name;

-- name: stalls
-- labels: trigger, topic, partition
-- gauge: workorders.ingest.stall_age, s
--   Time since the partition stalled; 0 if it is not stalled.
SELECT triggers.name, ledger.topic, ledger.partition,
    CASE WHEN ledger.status = 'stalled' THEN extract(epoch FROM now() - ledger.status_since) ELSE 0 END
FROM workorders.kafka_ledger AS ledger
JOIN workorders.triggers ON triggers.id = ledger.trigger_id;

-- name: messages
-- labels: trigger, outcome
-- counter: workorders.ingest.messages, {message}
--   Messages that were read: created, rejected, existing (there was a work order already), or filtered.
SELECT triggers.name, counts.outcome, sum(counts.messages)
FROM workorders.kafka_ledger AS ledger
JOIN workorders.triggers ON triggers.id = ledger.trigger_id
CROSS JOIN LATERAL (
    VALUES ('created', ledger.created), ('rejected', ledger.rejected), ('existing', ledger.existing),
        ('filtered', ledger.filtered)
) AS counts (outcome, messages)
GROUP BY triggers.name, counts.outcome;

-- name: range_durations
-- labels: trigger, percentile
-- gauge: workorders.ingest.range.duration, s
--   Time from plan to end of the newest ranges of the last 15 minutes, at most 50, by percentile.
SELECT triggers.name, percentiles.percentile, found.durations[percentiles.place]
FROM workorders.triggers
CROSS JOIN LATERAL (
    SELECT percentile_disc(ARRAY[0.5, 0.95, 1]) WITHIN GROUP (ORDER BY extract(epoch FROM finished_at - planned_at))
        AS durations
    FROM (
        SELECT ranges.finished_at, ranges.planned_at
        FROM workorders.kafka_ranges AS ranges
        WHERE ranges.trigger_id = triggers.id
            AND ranges.planned_at > now() - interval '15 minutes'
            AND ranges.finished_at IS NOT NULL
        ORDER BY ranges.planned_at DESC
        LIMIT 50
    ) AS newest
) AS found
CROSS JOIN unnest(ARRAY['50', '95', '100']) WITH ORDINALITY AS percentiles (percentile, place)
WHERE triggers.type = 'kafka';
