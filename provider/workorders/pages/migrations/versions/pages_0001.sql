-- One row, inserted below: the key that signs the forms of the pages. It is here, because all processes of all API servers
-- must have the same one, and Airflow has no secret that is shared by default.
CREATE TABLE workorders.pages_secrets (
    id smallint PRIMARY KEY DEFAULT 1,
    form_key bytea NOT NULL,
    CONSTRAINT pages_secrets_single_check CHECK (id = 1)
);
INSERT INTO workorders.pages_secrets (form_key)
VALUES (uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));
