-- The webhooks that API servers serve: what `workorders webhooks apply` has stored.
CREATE TABLE workorders.webhooks (
    name text PRIMARY KEY,
    -- Unique at the end of a transaction, because two webhooks may exchange their paths.
    path text NOT NULL UNIQUE DEFERRABLE INITIALLY DEFERRED,
    definition jsonb NOT NULL,
    -- When the definition was stored or changed; a server reads the definition again when this differs.
    stored_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
