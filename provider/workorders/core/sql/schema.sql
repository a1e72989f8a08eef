-- name: create_roles
-- Only those that do not exist; the others keep their passwords and their rights. The schema, and with it each table, belongs
-- to the owner.
DO $$
DECLARE
    missing text;
BEGIN
    FOREACH missing IN ARRAY ARRAY['workorders_owner', 'workorders_writer', 'workorders_reader'] LOOP
        IF to_regrole(missing) IS NULL THEN
            EXECUTE 'CREATE ROLE ' || missing || ' LOGIN';
        END IF;
    END LOOP;
    IF to_regnamespace('workorders') IS NULL THEN
        IF NOT pg_has_role('workorders_owner', 'SET') THEN
            GRANT workorders_owner TO CURRENT_USER;
        END IF;
        CREATE SCHEMA workorders AUTHORIZATION workorders_owner;
    END IF;
END $$;

-- name: grant_rights
GRANT USAGE ON SCHEMA workorders TO workorders_writer, workorders_reader;

-- The writer: Airflow, and Spark.
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA workorders TO workorders_writer;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA workorders TO workorders_writer;
GRANT EXECUTE ON FUNCTION workorders.enqueue_many TO workorders_writer;
REVOKE DELETE ON workorders.kafka_ledger FROM workorders_writer;
-- A recorded decision is not changed. A job also has its progress, and retention erases the words that it looked for.
REVOKE UPDATE, DELETE
    ON workorders.kafka_decisions, workorders.sequence_decisions, workorders.operator_actions, workorders.bulk_jobs
    FROM workorders_writer;
GRANT UPDATE (state, done, skipped, last_id, worker, error, started_at, heartbeat_at, finished_at, filter)
    ON workorders.bulk_jobs TO workorders_writer;
-- A webhook names the connections that its callers are compared with: who deploys stores it, as the owner.
REVOKE INSERT, UPDATE, DELETE ON workorders.alembic_version, workorders.webhooks FROM workorders_writer;

-- The reader: people. The key of the outbox's checkpoints is not for them.
GRANT SELECT ON ALL TABLES IN SCHEMA workorders TO workorders_reader;
REVOKE SELECT ON workorders.outbox_secrets FROM workorders_reader;

-- name: find_owner
SELECT quote_ident(owners.rolname), owners.rolname <> current_user AND pg_has_role(owners.oid, 'SET')
FROM pg_namespace AS schemas
JOIN pg_roles AS owners ON owners.oid = schemas.nspowner
WHERE schemas.nspname = 'workorders';

-- name: find_missing_rights
-- Of a writer: what it must be able to do with each table and view. A right to one column is enough for UPDATE.
SELECT tables.relname || ': ' || string_agg(rights.name, ', ' ORDER BY rights.name)
FROM pg_class AS tables
CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE']) AS rights (name)
WHERE tables.relnamespace = to_regnamespace('workorders')
    AND (tables.relkind = 'r' OR tables.relkind = 'v' AND rights.name = 'SELECT')
    AND NOT has_any_column_privilege(tables.oid, rights.name)
    AND NOT (
        rights.name <> 'SELECT' AND tables.relname = ANY (ARRAY['alembic_version', 'webhooks'])
        OR rights.name = 'UPDATE'
        AND tables.relname = ANY (ARRAY['kafka_decisions', 'sequence_decisions', 'operator_actions'])
    )
GROUP BY tables.relname
ORDER BY tables.relname;

-- name: sequence_queries
-- For each identity column a query of its table, its sequence, the last number of that, and the highest number in a row. Without
-- those that the user may not read: a column can be filled without any right to its sequence.
SELECT format(
    'SELECT %1$L, %2$L, coalesce(pg_sequence_last_value(%2$L), 0) AS last, max(%3$I) AS highest FROM workorders.%1$I',
    pg_class.relname, sequences.name, pg_attribute.attname
)
FROM pg_attribute
JOIN pg_class ON pg_class.oid = pg_attribute.attrelid
CROSS JOIN LATERAL (
    SELECT pg_get_serial_sequence(pg_class.oid::regclass::text, pg_attribute.attname) AS name
) AS sequences
WHERE pg_class.relnamespace = to_regnamespace('workorders') AND pg_attribute.attidentity <> ''
    AND has_sequence_privilege(sequences.name, 'SELECT') AND has_table_privilege(pg_class.oid, 'SELECT')
ORDER BY pg_class.relname;
