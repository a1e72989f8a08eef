-- block: exported
-- The tables of a line of JSON and of a row of CSV.
FROM workorders.work_orders
LEFT JOIN workorders.triggers ON triggers.id = work_orders.trigger_id
LEFT JOIN workorders.workflows ON workflows.id = work_orders.workflow_id
LEFT JOIN workorders.source_streams ON source_streams.id = work_orders.stream_id
LEFT JOIN workorders.dataclips ON dataclips.id = work_orders.id
LEFT JOIN workorders.rejections ON rejections.work_order_id = work_orders.id
LEFT JOIN LATERAL (
    SELECT attempt, error_type, error
    FROM workorders.runs
    WHERE runs.work_order_id = work_orders.id
    ORDER BY attempt DESC
    LIMIT 1
) AS newest ON true
WHERE work_orders.id = ANY (%(ids)s)
ORDER BY work_orders.id;

-- name: lines
-- JSON as text, because a client's numbers are narrower than those of jsonb. json instead of jsonb keeps the fields'
-- order.
SELECT json_build_object(
    'id', work_orders.id, 'created_at', work_orders.created_at, 'trigger', triggers.name,
    'trigger_type', triggers.type, 'workflow', workflows.name, 'state', work_orders.state,
    'stream', source_streams.name, 'position', work_orders.position,
    'reason', rejections.code, 'detail', rejections.detail,
    'raw_base64', translate(encode(rejections.raw, 'base64'), E'\n', ''),
    'attempts', coalesce(newest.attempt, 0), 'error_type', newest.error_type, 'error', newest.error,
    'request', workorders.json_shown(coalesce(dataclips.request, rejections.request))::json,
    'body', workorders.json_shown(dataclips.body)::json
)::text
-- use: exported

-- name: cells
SELECT work_orders.id::text, work_orders.created_at::text, triggers.name, triggers.type, workflows.name,
    work_orders.state::text, source_streams.name, work_orders.position::text,
    rejections.code, rejections.detail, translate(encode(rejections.raw, 'base64'), E'\n', ''),
    coalesce(newest.attempt, 0)::text, newest.error_type, newest.error,
    workorders.json_shown(coalesce(dataclips.request, rejections.request)), workorders.json_shown(dataclips.body)
-- use: exported
