-- name: save_limit
UPDATE workorders.outbox_identity SET max_message_bytes = %(max_message_bytes)s
WHERE max_message_bytes <> %(max_message_bytes)s

-- name: id_and_checkpoint_key
SELECT outbox_id, checkpoint_key FROM workorders.outbox_identity CROSS JOIN workorders.outbox_secrets

-- name: record_identity
UPDATE workorders.outbox_identity
SET shards = coalesce(shards, %(shards)s),
    transactional_id_prefix = coalesce(transactional_id_prefix, %(transactional_id_prefix)s),
    cluster_id = coalesce(cluster_id, %(cluster_id)s),
    checkpoint_topic = coalesce(checkpoint_topic, %(checkpoint_topic)s),
    checkpoint_topic_id = coalesce(checkpoint_topic_id, %(checkpoint_topic_id)s)
RETURNING shards, transactional_id_prefix, cluster_id, checkpoint_topic, checkpoint_topic_id
