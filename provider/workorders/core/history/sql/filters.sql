-- name: find_streams
SELECT id
FROM workorders.source_streams
WHERE starts_with(name, %(beginning)s)
    AND (%(trigger_id)s::integer IS NULL OR trigger_id = %(trigger_id)s);

-- block: named
-- With the names of what a work order refers to, and its rejection.
FROM workorders.work_orders
LEFT JOIN workorders.triggers ON triggers.id = work_orders.trigger_id
LEFT JOIN workorders.workflows ON workflows.id = work_orders.workflow_id
LEFT JOIN workorders.source_streams ON source_streams.id = work_orders.stream_id
LEFT JOIN workorders.rejections ON rejections.work_order_id = work_orders.id

-- block: filtered
-- The tables that a filter reads. A join that no condition needs is left out when the query is planned.
FROM workorders.work_orders
LEFT JOIN workorders.rejections ON rejections.work_order_id = work_orders.id
LEFT JOIN workorders.search_words ON search_words.id = work_orders.id

-- block: passes
-- All of a filter except its words, and the bounds of a page. The planner removes the conditions whose value is NULL. So
-- the query must be planned each time, as all are here: a generic plan would have to serve every combination.
        (%(first_id)s::uuid IS NULL OR work_orders.id >= %(first_id)s)
        AND (%(end_id)s::uuid IS NULL OR work_orders.id < %(end_id)s)
        AND (%(since)s::timestamptz IS NULL OR work_orders.created_at >= %(since)s)
        AND (%(until)s::timestamptz IS NULL OR work_orders.created_at < %(until)s)
        AND (%(trigger_id)s::integer IS NULL OR work_orders.trigger_id = %(trigger_id)s)
        AND (%(workflow_id)s::integer IS NULL OR work_orders.workflow_id = %(workflow_id)s)
        AND (%(state)s::workorders.work_order_state IS NULL OR work_orders.state = %(state)s)
        AND (%(state)s::workorders.work_order_state IS DISTINCT FROM 'rejected' OR rejections.work_order_id IS NOT NULL)
        AND (%(rejection)s::text IS NULL OR rejections.code = %(rejection)s)
        AND (%(stream_ids)s::integer[] IS NULL OR work_orders.stream_id = ANY (%(stream_ids)s))
        AND (%(from_position)s::bigint IS NULL OR work_orders.position >= %(from_position)s)
        AND (%(to_position)s::bigint IS NULL OR work_orders.position < %(to_position)s)
        AND (%(ordering_keys)s::bigint[] IS NULL OR work_orders.ordering_key = ANY (%(ordering_keys)s))
        AND (%(selected)s::uuid[] IS NULL OR work_orders.id = ANY (%(selected)s))
        AND (%(before_id)s::uuid IS NULL OR work_orders.id < %(before_id)s)
        AND (%(after_id)s::uuid IS NULL OR work_orders.id > %(after_id)s)

-- block: listed
-- The same conditions for the columns of search_words, whose indexes return them in the order of their ids.
        (%(first_id)s::uuid IS NULL OR search_words.id >= %(first_id)s)
        AND (%(selected)s::uuid[] IS NULL OR search_words.id = ANY (%(selected)s))
        AND (%(after_id)s::uuid IS NULL OR search_words.id > %(after_id)s)
        AND (%(before_id)s::uuid IS NULL OR search_words.id < %(before_id)s)
        AND (%(end_id)s::uuid IS NULL OR search_words.id < %(end_id)s)
        AND (%(until_id)s::uuid IS NULL OR search_words.id <= %(until_id)s)
        AND (%(trigger_id)s::integer IS NULL OR search_words.trigger_id = %(trigger_id)s)
        AND (%(workflow_id)s::integer IS NULL OR search_words.workflow_id = %(workflow_id)s)
        AND (%(ordering_keys)s::bigint[] IS NULL OR search_words.ordering_key = ANY (%(ordering_keys)s))
