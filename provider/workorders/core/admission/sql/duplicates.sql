-- name: ignore
-- Locks no holder: a claim skips locked rows, and would run the others out of order. So a holder that is deleted at this
-- moment may leave its count behind. Counts in the order of the holders, so that no two transactions wait for each other.
WITH given AS MATERIALIZED (
    SELECT id, holder FROM unnest(%(ids)s::uuid[], %(holders)s::uuid[]) AS given (id, holder)
),
orders AS (
    DELETE FROM workorders.work_orders USING given WHERE work_orders.id = given.id
),
clips AS (
    DELETE FROM workorders.dataclips USING given WHERE dataclips.id = given.id RETURNING 1
),
rejected AS (
    DELETE FROM workorders.rejections USING given WHERE rejections.work_order_id = given.id RETURNING 1
),
counted AS (
    INSERT INTO workorders.ignored_repeats AS stored (work_order_id, count, last_at)
    SELECT holders.id, count(*), now()
    FROM given
    JOIN workorders.work_orders AS holders ON holders.id = given.holder
    GROUP BY holders.id
    ORDER BY holders.id
    ON CONFLICT (work_order_id) DO UPDATE SET count = stored.count + EXCLUDED.count, last_at = EXCLUDED.last_at
)
SELECT (SELECT count(*) FROM clips), (SELECT count(*) FROM rejected);

-- name: counts
SELECT kept.number, coalesce(stored.count, 0), greatest(stored.last_at, kept.last_at)
FROM (
    SELECT count(*) AS number, max(work_orders.created_at) AS last_at
    FROM workorders.rejections
    JOIN workorders.work_orders ON work_orders.id = rejections.work_order_id
    WHERE rejections.original_id = %(id)s
) AS kept
LEFT JOIN workorders.ignored_repeats AS stored ON stored.work_order_id = %(id)s;
