"""The first tables of `webhook`: see the file of SQL with the same name."""

from workorders.core.migrations.ddl import execute_sql_of

revision = "webhook_0001"
down_revision = None
branch_labels = "webhook"


def upgrade() -> None:
    """Create the tables."""
    execute_sql_of(__file__)
