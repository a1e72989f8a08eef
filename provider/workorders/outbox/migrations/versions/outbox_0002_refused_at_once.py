"""Two things that could never be sent as they were written, and are refused at once from here on."""

from alembic import op

revision = "outbox_0002"
down_revision = "core_0009"
branch_labels = None
depends_on = None

_VALID_HEADERS = """
    CREATE OR REPLACE FUNCTION workorders.outbox_headers_are_valid(headers jsonb) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE
        WHEN headers IS NULL THEN true
        WHEN jsonb_typeof(headers) <> 'array' THEN false
        ELSE NOT EXISTS (
            SELECT FROM jsonb_array_elements(headers) AS header
            WHERE CASE
                WHEN jsonb_typeof(header) <> 'array' THEN true
                WHEN jsonb_array_length(header) <> 2 OR jsonb_typeof(header -> 0) <> 'string' THEN true
                WHEN jsonb_typeof(header -> 1) IN ('string', 'null') THEN false
                WHEN jsonb_typeof(header -> 1) <> 'object' THEN true
                WHEN jsonb_typeof(header -> 1 -> 'base64') IS DISTINCT FROM 'string' THEN true
                ELSE header -> 1 ->> 'base64' !~ '%(base64)s'
            END
        )
    END;
"""
_WHOLE_GROUPS = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
_RIGHT_CHARACTERS = "^[A-Za-z0-9+/]*={0,2}$"

# The function is long, and everything else in it stays as it is.
_REPLACED = """
    DO $do$
    BEGIN
        EXECUTE replace(replace(pg_get_functiondef('workorders.enqueue_many'::regproc),
            'message.timestamp_ms %(old_test)s', 'message.timestamp_ms %(new_test)s'),
            'its timestamp is %(old_fault)s', 'its timestamp is %(new_fault)s');
    END $do$;
"""
_NEGATIVE = ("< 0", "negative")
_NOT_POSITIVE = ("<= 0", "0, which Kafka''s client takes for none, or negative")


def upgrade() -> None:
    """Refuse base64 of which nobody could read the end, and the timestamp 0, in whose place the present was sent."""
    op.execute(_VALID_HEADERS % {"base64": _WHOLE_GROUPS})
    _replace(_NEGATIVE, _NOT_POSITIVE)


def downgrade() -> None:
    """Take both again."""
    _replace(_NOT_POSITIVE, _NEGATIVE)
    op.execute(_VALID_HEADERS % {"base64": _RIGHT_CHARACTERS})


def _replace(old: tuple[str, str], new: tuple[str, str]) -> None:
    op.execute(
        _REPLACED
        % {
            "old_test": old[0],
            "new_test": new[0],
            # Quotes are doubled in the function, and once more in this text.
            "old_fault": old[1].replace("''", "''''"),
            "new_fault": new[1].replace("''", "''''"),
        }
    )
