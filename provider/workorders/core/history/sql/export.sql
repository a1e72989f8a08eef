-- name: lines
-- JSON as text, because a client's numbers are narrower than those of jsonb.
SELECT work_orders.id, work_orders.created_at, triggers.name, triggers.type, workflows.name,
    work_orders.state::text, source_streams.name, work_orders.position,
    rejections.code, rejections.detail, translate(encode(rejections.raw, 'base64'), E'\n', ''),
    coalesce(newest.attempt, 0), newest.error_type, newest.error,
    workorders.json_shown(coalesce(dataclips.request, rejections.request)), workorders.json_shown(dataclips.body)
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
