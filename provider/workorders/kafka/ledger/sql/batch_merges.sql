-- name: triggers
-- The definition that the last planner stored; an older one has no such field.
SELECT id, coalesce((definition ->> 'merge_batches_after_days')::integer, %(default_days)s)
FROM workorders.triggers
WHERE type = 'kafka'
ORDER BY id;

-- name: old_batches
-- Later batches were planned later: fewer than the limit are returned where those begin that are too young, so the caller
-- reads no further. A superseded range is never finished, so no decision refers to a batch whose ranges all are.
SELECT batches.id, ranges.topic, ranges.partition, ranges.topic_id, ranges.generation, ranges.start_offset,
    ranges.end_offset, coalesce(ranges.finished_at < %(before)s, false) AS is_old, batches.filter::text AS filter
FROM (
    SELECT id, planned_at, filter
    FROM workorders.kafka_batches
    WHERE trigger_id = %(trigger_id)s AND id >= %(from_id)s
    ORDER BY id
    LIMIT %(limit)s
) AS batches
JOIN workorders.kafka_ranges AS ranges ON ranges.batch_id = batches.id
WHERE batches.planned_at < %(before)s
ORDER BY batches.id, ranges.topic, ranges.partition;

-- name: taken_batches
-- All later ones of the trigger, because those of a group follow one another.
SELECT batches.id, ranges.topic, ranges.partition, ranges.topic_id, ranges.generation, ranges.start_offset,
    ranges.end_offset,
    (batches.id = own.id OR coalesce(batches.taken_by = own.id, false)) AND ranges.finished_at IS NOT NULL AS can_merge,
    batches.filter::text AS filter
FROM workorders.kafka_batches AS own
JOIN workorders.kafka_batches AS batches ON batches.trigger_id = own.trigger_id AND batches.id >= own.id
JOIN workorders.kafka_ranges AS ranges ON ranges.batch_id = batches.id
WHERE own.id = %(taker)s
ORDER BY batches.id, ranges.topic, ranges.partition;

-- name: delete_virtual_partitions
-- Those of the last range of a group too: they are a part of the merged range only, and a replay takes all of it.
DELETE FROM workorders.kafka_virtual_partitions WHERE batch_id = ANY (%(ids)s);

-- name: merge_ranges
-- Of each partition the last range of a group becomes the merged one. A new row would lock the trigger's row, for which
-- a planner waits.
UPDATE workorders.kafka_ranges AS ranges
SET batch_id = merged.into_id,
    start_offset = merged.start_offset,
    end_offset = merged.end_offset,
    finished_at = merged.finished_at,
    created = merged.created,
    rejected = merged.rejected,
    existing = merged.existing,
    filtered = merged.filtered,
    last_error = NULL
FROM (
    SELECT merges.into_id, parts.topic, parts.partition, max(parts.batch_id) AS batch_id,
        min(parts.start_offset) AS start_offset, max(parts.end_offset) AS end_offset,
        max(parts.finished_at) AS finished_at, sum(parts.created)::bigint AS created,
        sum(parts.rejected)::bigint AS rejected, sum(parts.existing)::bigint AS existing,
        sum(parts.filtered)::bigint AS filtered
    FROM unnest(%(ids)s::bigint[], %(into_ids)s::bigint[]) AS merges (id, into_id)
    JOIN workorders.kafka_ranges AS parts ON parts.batch_id = merges.id
    GROUP BY merges.into_id, parts.topic, parts.partition
) AS merged
WHERE (ranges.batch_id, ranges.topic, ranges.partition) = (merged.batch_id, merged.topic, merged.partition);

-- name: delete_ranges
DELETE FROM workorders.kafka_ranges WHERE batch_id = ANY (%(ids)s);

-- name: merge_batches
UPDATE workorders.kafka_batches AS batches
SET first_id = merged.first_id
FROM (
    SELECT merges.into_id, min(coalesce(parts.first_id, parts.id)) AS first_id
    FROM unnest(%(ids)s::bigint[], %(into_ids)s::bigint[]) AS merges (id, into_id)
    JOIN workorders.kafka_batches AS parts ON parts.id = merges.id
    GROUP BY merges.into_id
) AS merged
WHERE batches.id = merged.into_id;

-- name: delete_batches
DELETE FROM workorders.kafka_batches WHERE id = ANY (%(ids)s);
