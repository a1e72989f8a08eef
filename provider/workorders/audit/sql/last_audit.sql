-- name: write
INSERT INTO workorders.last_audit (report) VALUES (%(report)s::text::jsonb)
ON CONFLICT (id) DO UPDATE SET report = EXCLUDED.report;

-- name: read
SELECT report::text FROM workorders.last_audit;
