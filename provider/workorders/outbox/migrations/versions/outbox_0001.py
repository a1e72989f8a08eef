"""The first tables of `outbox`: see the file of SQL with the same name."""

from workorders.core.migrations.ddl import execute_sql_of

revision = "outbox_0001"
down_revision = None
branch_labels = "outbox"


def upgrade() -> None:
    """Create the tables."""
    execute_sql_of(__file__)
