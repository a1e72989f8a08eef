GRANT USAGE ON SCHEMA workorders TO workorders_writer, workorders_reader;

-- The writer: Airflow, and Spark.
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA workorders TO workorders_writer;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA workorders TO workorders_writer;
GRANT EXECUTE ON FUNCTION workorders.enqueue_many TO workorders_writer;
REVOKE DELETE ON workorders.kafka_ledger FROM workorders_writer;
-- A recorded decision is not changed. A job also has its progress, and retention erases the words that it looked for.
REVOKE UPDATE, DELETE ON workorders.kafka_decisions, workorders.sequence_decisions, workorders.bulk_jobs
    FROM workorders_writer;
GRANT UPDATE (state, done, skipped, last_id, worker, error, started_at, heartbeat_at, finished_at, filter)
    ON workorders.bulk_jobs TO workorders_writer;
REVOKE INSERT, UPDATE, DELETE ON workorders.alembic_version, workorders.pages_secrets FROM workorders_writer;

-- The reader: people. The keys of the outbox's checkpoints and of the pages' forms are not for them.
GRANT SELECT ON ALL TABLES IN SCHEMA workorders TO workorders_reader;
REVOKE SELECT ON workorders.outbox_secrets, workorders.pages_secrets FROM workorders_reader;
