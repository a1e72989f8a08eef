"""Functions that read JSON which may be too long to be written out: one such row must not stop the others."""

from alembic import op

revision = "core_0011"
down_revision = "core_0010"
branch_labels = None
depends_on = None

# A few KB of jsonb can be gigabytes of text: it stores 1e-9999 without its digits. Messages like that are rejected, but
# a row that came in another way fails each statement that reads it, and with it all rows of that statement. So the text
# is made under a savepoint. The longest that an input may be is 32 MiB; its text is about three times as long at most.
_JSON_TEXT = """
    CREATE FUNCTION workorders.json_text(value jsonb, pretty boolean DEFAULT false) RETURNS text
    LANGUAGE plpgsql STABLE STRICT AS $$
    DECLARE
        max_bytes CONSTANT integer := 128 * 1024 * 1024;
        written text;
    BEGIN
        IF pretty THEN
            written := jsonb_pretty(value);
        ELSE
            written := value::text;
        END IF;
        RETURN CASE WHEN octet_length(written) <= max_bytes THEN written END;
    EXCEPTION
        -- internal_error is what Postgres calls a request for more than 1 GB of memory.
        WHEN program_limit_exceeded OR statement_too_complex OR out_of_memory OR internal_error OR data_corrupted THEN
            RETURN NULL;
    END $$;

    CREATE FUNCTION workorders.json_shown(value jsonb, pretty boolean DEFAULT false) RETURNS text
    LANGUAGE plpgsql STABLE STRICT AS $$
    BEGIN
        RETURN coalesce(
            workorders.json_text(value, pretty),
            -- Indents alone can make a deep value too long.
            CASE WHEN pretty THEN workorders.json_text(value) END,
            '"unreadable: Postgres cannot write this JSON out, because it is too long as text"'
        );
    END $$;
"""

# Stops before the inputs of one claim fill the memory of their worker. One that cannot be written out takes seconds,
# and ends the reading as well: many of them must not take longer than a statement may. No plan is kept, because one
# that was made for an empty table would read a full one from end to end.
_READ_INPUTS = """
    CREATE FUNCTION workorders.read_inputs(ids uuid[], max_bytes bigint)
    RETURNS TABLE (request bytea, body bytea, is_unreadable boolean)
    LANGUAGE plpgsql STABLE STRICT SET plan_cache_mode = force_custom_plan AS $$
    DECLARE
        clip record;
        request_text text;
        body_text text;
        bytes bigint := 0;
    BEGIN
        FOR clip IN
            SELECT dataclips.request, dataclips.body
            FROM unnest(ids) WITH ORDINALITY AS given (id, place)
            LEFT JOIN workorders.dataclips ON dataclips.id = given.id
            ORDER BY given.place
        LOOP
            request_text := workorders.json_text(clip.request);
            body_text := workorders.json_text(clip.body);
            is_unreadable := num_nonnulls(clip.request, clip.body) > num_nonnulls(request_text, body_text);
            request := convert_to(coalesce(request_text, '{}'), 'UTF8');
            body := CASE WHEN NOT is_unreadable THEN convert_to(body_text, 'UTF8') END;
            RETURN NEXT;
            bytes := bytes + octet_length(request) + coalesce(octet_length(body), 0);
            EXIT WHEN is_unreadable OR bytes >= max_bytes;
        END LOOP;
    END $$;
"""


def upgrade() -> None:
    """Create the functions."""
    op.execute(_JSON_TEXT)
    op.execute(_READ_INPUTS)


def downgrade() -> None:
    """Drop the functions."""
    op.execute("DROP FUNCTION workorders.read_inputs, workorders.json_shown, workorders.json_text")
