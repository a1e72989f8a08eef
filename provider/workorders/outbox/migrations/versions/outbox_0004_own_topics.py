"""The topic of markers is no destination of messages, and markers are signed.

The marker of a batch that is open during the upgrade has no signature, so no relay could tell whether it counts.
"""

from alembic import op

revision = "outbox_0004"
down_revision = "core_0013"
branch_labels = None
depends_on = None

_REFUSE_OPEN_MARKERS = """
    DO $do$
    BEGIN
        IF EXISTS (SELECT FROM workorders.outbox_claims WHERE marked) THEN
            RAISE EXCEPTION 'The outbox has an open batch whose marker is not signed. The tables were not upgraded. '
                'Let a relay of the installed version run to its end, pause it, and upgrade then.';
        END IF;
    END $do$;
"""

_TABLES = """
    ALTER TABLE workorders.outbox_settings
        ADD COLUMN markers_topics text[] NOT NULL DEFAULT '{workorders-outbox-markers}',
        ADD COLUMN only_listed_topics boolean NOT NULL DEFAULT false;
    UPDATE workorders.outbox_settings SET markers_topics = ARRAY(
        SELECT DISTINCT markers_topic FROM workorders.outbox_shards WHERE markers_topic IS NOT NULL
    ) WHERE EXISTS (SELECT FROM workorders.outbox_shards WHERE markers_topic IS NOT NULL);

    CREATE TABLE workorders.outbox_secrets (
        id smallint PRIMARY KEY DEFAULT 1,
        marker_key bytea NOT NULL,
        CONSTRAINT outbox_secrets_single_check CHECK (id = 1)
    );
    INSERT INTO workorders.outbox_secrets (marker_key)
    VALUES (uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));
"""

_DROPS = """
    DROP TABLE workorders.outbox_secrets;
    ALTER TABLE workorders.outbox_settings DROP COLUMN markers_topics, DROP COLUMN only_listed_topics;
"""

# The function is long, and everything else in it stays as it is. In the order in which it is read.
_IN_THE_FUNCTION = (
    (
        "WHEN message.partition < 0 THEN",
        "WHEN message.holds_markers"
        " THEN 'the relay keeps its own markers in this topic; choose another one'"
        " WHEN message.is_unlisted THEN 'the outbox sends to listed topics only; list it under `topics` in its file'"
        " WHEN message.partition < 0 THEN",
    ),
    (
        "SELECT given.*, coalesce(",
        "SELECT given.*, given.topic = ANY (settings.markers_topics) AS holds_markers,"
        " settings.only_listed_topics AND known.topic IS NULL AS is_unlisted, coalesce(",
    ),
    (
        "OR message.partition < 0 OR",
        "OR message.holds_markers OR message.is_unlisted OR message.partition < 0 OR",
    ),
)

_REPLACED = """
    DO $do$
    BEGIN
        EXECUTE replace(pg_get_functiondef('workorders.enqueue_many'::regproc), $old$%(old)s$old$, $new$%(new)s$new$);
    END $do$;
"""


def upgrade() -> None:
    """Refuse the topics of markers, and those that are not listed where only listed ones are allowed."""
    op.execute(_REFUSE_OPEN_MARKERS)
    op.execute(_TABLES)
    for old, new in _IN_THE_FUNCTION:
        _replace(old, new)


def downgrade() -> None:
    """Take every topic again."""
    for old, new in _IN_THE_FUNCTION:
        _replace(new, old)
    op.execute(_DROPS)


def _replace(old: str, new: str) -> None:
    op.execute(_REPLACED % {"old": old, "new": new})
