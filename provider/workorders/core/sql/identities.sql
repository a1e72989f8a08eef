-- name: columns
-- Without those that the user may not read: a column can be filled without any right to its sequence.
SELECT pg_class.relname, pg_attribute.attname, sequences.name
FROM pg_attribute
JOIN pg_class ON pg_class.oid = pg_attribute.attrelid
CROSS JOIN LATERAL (
    SELECT pg_get_serial_sequence(pg_class.oid::regclass::text, pg_attribute.attname) AS name
) AS sequences
WHERE pg_class.relnamespace = to_regnamespace('workorders') AND pg_attribute.attidentity <> ''
    AND has_sequence_privilege(sequences.name, 'SELECT') AND has_table_privilege(pg_class.oid, 'SELECT')
ORDER BY pg_class.relname;
