"""The first tables of `core`: see the file of SQL with the same name."""

from workorders.core.migrations.ddl import execute_sql_of

revision = "core_0001"
down_revision = None
branch_labels = "core"


def upgrade() -> None:
    """Create the tables."""
    execute_sql_of(__file__)
