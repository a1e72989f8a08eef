-- name: write
INSERT INTO workorders.last_audit (report) VALUES (%(report)s::text::jsonb)
ON CONFLICT (id) DO UPDATE SET report = EXCLUDED.report, ended_at = now();

-- name: read
SELECT ended_at, report::text FROM workorders.last_audit;
