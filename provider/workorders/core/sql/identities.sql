-- name: queries
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
