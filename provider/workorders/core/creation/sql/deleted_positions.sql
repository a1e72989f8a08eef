-- name: delete
WITH gone AS (
    DELETE FROM workorders.work_orders WHERE id = ANY (%(ids)s) RETURNING id
), runs AS (
    DELETE FROM workorders.runs USING gone WHERE runs.work_order_id = gone.id RETURNING runs.id
), outputs AS (
    DELETE FROM workorders.run_outputs USING runs WHERE run_outputs.run_id = runs.id
), logs AS (
    DELETE FROM workorders.run_logs USING runs WHERE run_logs.run_id = runs.id
), dataclips AS (
    DELETE FROM workorders.dataclips USING gone WHERE dataclips.id = gone.id
), rejections AS (
    DELETE FROM workorders.rejections USING gone WHERE rejections.work_order_id = gone.id
), words AS (
    DELETE FROM workorders.search_words USING gone WHERE search_words.id = gone.id
), repeats AS (
    DELETE FROM workorders.duplicates USING gone WHERE duplicates.work_order_id = gone.id
)
SELECT count(*) FROM gone;

-- name: lock_stream
-- Excludes the creation of missing work orders of the stream, which must see each work order or its deletion.
SELECT pg_try_advisory_xact_lock(%(class)s, %(stream_id)s);

-- name: lock_stream_shared
SELECT pg_advisory_xact_lock_shared(%(class)s, %(stream_id)s);

-- name: note_whole
INSERT INTO workorders.whole_ranges (stream_id, from_position, to_position, work_orders)
VALUES (%(stream_id)s, %(start)s, %(end)s, %(work_orders)s)
ON CONFLICT (stream_id, from_position, to_position) DO NOTHING;

-- name: remember
-- Adjacent ranges become one, so what retention deletes in order stays a single row. Ranges with gaps stay as they are,
-- because the number of work orders in a part of them is unknown.
WITH near AS (
    DELETE FROM workorders.deleted_positions
    WHERE stream_id = %(stream_id)s
        AND work_orders = to_position - from_position
        AND from_position >= coalesce(
            (
                SELECT max(from_position)
                FROM workorders.deleted_positions
                WHERE stream_id = %(stream_id)s AND from_position <= %(first)s
            ),
            %(first)s
        )
        AND from_position <= %(last)s + 1
    RETURNING from_position, to_position
), ranges AS (
    SELECT unnest(range_agg(range)) AS range
    FROM (
        SELECT int8range(from_position, to_position) AS range FROM near
        UNION ALL
        SELECT int8range(position, position + 1)
        FROM unnest(%(positions)s::bigint[]) AS gone (position)
        WHERE NOT EXISTS (
            SELECT FROM workorders.deleted_positions AS with_gaps
            WHERE with_gaps.stream_id = %(stream_id)s
                AND with_gaps.work_orders < with_gaps.to_position - with_gaps.from_position
                AND gone.position >= with_gaps.from_position
                AND gone.position < with_gaps.to_position
        )
    ) AS old_and_new
)
INSERT INTO workorders.deleted_positions (stream_id, from_position, to_position, work_orders)
SELECT %(stream_id)s, lower(range), upper(range), upper(range) - lower(range) FROM ranges;

-- name: close_gaps
-- Of one whole range all of whose work orders are deleted: none is there, and as many were deleted as it had. So nothing
-- is missing in its gaps that a replay could restore, and they may count as deleted. Anything less is no proof: where an
-- operator has jumped ahead, or a work order was lost, a gap looks the same and its messages must still be created.
WITH done AS (
    DELETE FROM workorders.whole_ranges
    WHERE (stream_id, from_position, to_position) IN (
        SELECT stream_id, from_position, to_position
        FROM workorders.whole_ranges AS whole
        WHERE stream_id = %(stream_id)s
            AND from_position <= %(last)s
            AND to_position > %(first)s
            AND NOT EXISTS (
                SELECT FROM workorders.work_orders
                WHERE work_orders.stream_id = whole.stream_id
                    AND work_orders.position >= whole.from_position
                    AND work_orders.position < whole.to_position
            )
            AND work_orders <= (
                SELECT sum(
                    least(deleted.to_position, whole.to_position) - greatest(deleted.from_position, whole.from_position)
                )
                FROM workorders.deleted_positions AS deleted
                WHERE deleted.stream_id = whole.stream_id
                    AND deleted.from_position < whole.to_position
                    AND deleted.to_position > whole.from_position
                HAVING bool_and(deleted.work_orders = deleted.to_position - deleted.from_position)
            )
        ORDER BY from_position
        LIMIT 1
    )
    RETURNING from_position, to_position, work_orders
), near AS (
    DELETE FROM workorders.deleted_positions
    USING done
    WHERE deleted_positions.stream_id = %(stream_id)s
        AND deleted_positions.from_position < done.to_position
        AND deleted_positions.to_position > done.from_position
    RETURNING deleted_positions.from_position, deleted_positions.to_position
), all_near AS (
    -- All of them, so that they are gone before the first row is written that takes the place of one.
    SELECT range_agg(int8range(from_position, to_position)) AS ranges FROM near
)
INSERT INTO workorders.deleted_positions (stream_id, from_position, to_position, work_orders)
SELECT %(stream_id)s, lower(part.range), upper(part.range), part.work_orders
FROM done
CROSS JOIN all_near
CROSS JOIN LATERAL (
    SELECT int8range(done.from_position, done.to_position) AS range, done.work_orders
    UNION ALL
    SELECT rest, upper(rest) - lower(rest)
    FROM unnest(all_near.ranges - int8multirange(int8range(done.from_position, done.to_position))) AS rest
) AS part;
