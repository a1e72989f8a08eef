-- name: trigger
-- What decodes a trigger's messages, and when it was last changed; null if it never was.
SELECT definition, CASE WHEN updated_at > created_at THEN updated_at END
FROM workorders.triggers
WHERE name = %(trigger)s;

-- name: positions
SELECT position
FROM workorders.work_orders
WHERE stream_id = (
        SELECT source_streams.id FROM workorders.source_streams
        JOIN workorders.triggers ON triggers.id = source_streams.trigger_id
        WHERE triggers.name = %(trigger)s AND source_streams.name = %(stream)s
    )
    AND position >= %(start)s
    AND position < %(end)s;

-- name: compare
-- As text too, because jsonb takes 1.0 for 1. Postgres writes the input of a message that a rule rejected as its raw value.
SELECT work_orders.id, work_orders.created_at, work_orders.state = 'rejected' AS is_rejected,
    dataclips.id IS NOT NULL AS has_input, rejections.code,
    coalesce(
        dataclips.body IS NULL AND dataclips.request = '{}', rejections.raw IS NULL AND rejections.request = '{}', false
    ) AS is_wiped,
    CASE WHEN dataclips.id IS NOT NULL
        THEN dataclips.body = given.body
            AND workorders.json_text(dataclips.body) IS NOT DISTINCT FROM workorders.json_text(given.body)
        -- An input that Postgres cannot write out is not kept if a rule rejects it.
        WHEN rejections.raw IS NULL
        THEN %(is_null)s OR given.body IS NOT NULL AND workorders.json_text(given.body) IS NULL
        ELSE rejections.raw = ANY (%(raws)s::bytea[])
            OR rejections.raw = convert_to(workorders.json_text(given.body), 'UTF8')
    END AS same_content,
    coalesce(dataclips.request, rejections.request) = given.request
        AND workorders.json_text(coalesce(dataclips.request, rejections.request))
            IS NOT DISTINCT FROM workorders.json_text(given.request) AS same_request
FROM (VALUES (%(body)s::text::jsonb, %(request)s::text::jsonb)) AS given (body, request)
JOIN workorders.work_orders ON work_orders.position = %(position)s AND work_orders.stream_id = (
    SELECT source_streams.id FROM workorders.source_streams
    JOIN workorders.triggers ON triggers.id = source_streams.trigger_id
    WHERE triggers.name = %(trigger)s AND source_streams.name = %(stream)s
)
LEFT JOIN workorders.dataclips ON dataclips.id = work_orders.id
LEFT JOIN workorders.rejections ON rejections.work_order_id = work_orders.id
ORDER BY work_orders.id
LIMIT 1;
