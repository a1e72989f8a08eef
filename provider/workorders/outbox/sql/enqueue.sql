-- name: enqueue
SELECT workorders.enqueue_many(
    %(topics)s::text[], %(keys)s::bytea[], %(values)s::bytea[], %(headers)s::text[]::jsonb[], %(partitions)s::integer[],
    %(timestamps)s::bigint[], %(event_ids)s::uuid[]
)

-- name: enqueue_by_names
-- The same in SQLAlchemy's way of naming parameters.
SELECT workorders.enqueue_many(
    CAST(:topics AS text[]), CAST(:keys AS bytea[]), CAST(:values AS bytea[]),
    CAST(CAST(:headers AS text[]) AS jsonb[]), CAST(:partitions AS integer[]), CAST(:timestamps AS bigint[]),
    CAST(CAST(:event_ids AS text[]) AS uuid[])
)
