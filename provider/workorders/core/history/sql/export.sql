-- name: lines
-- JSON is made here, because a client's numbers are narrower than those of jsonb.
SELECT row_to_json(line)::text
FROM (
    SELECT work_orders.id,
        to_char(work_orders.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"') AS created_at,
        triggers.name AS trigger, triggers.type AS trigger_type,
        workflows.name AS workflow, work_orders.state, source_streams.name AS stream, work_orders.position,
        rejections.code AS reason, rejections.detail,
        translate(encode(rejections.raw, 'base64'), E'\n', '') AS raw_base64,
        coalesce(newest.attempt, 0) AS attempts, newest.error_type, newest.error,
        workorders.json_shown(coalesce(dataclips.request, rejections.request))::json AS request,
        workorders.json_shown(dataclips.body)::json AS body
    -- use: named
    LEFT JOIN workorders.dataclips ON dataclips.id = work_orders.id
    LEFT JOIN LATERAL (
        SELECT attempt, error_type, error
        FROM workorders.runs
        WHERE runs.work_order_id = work_orders.id
        ORDER BY attempt DESC
        LIMIT 1
    ) AS newest ON true
    WHERE work_orders.id = ANY (%(ids)s)
    ORDER BY work_orders.id
) AS line;
