"""The first tables of `pages`: see the file of SQL with the same name."""

from workorders.core.migrations.ddl import execute_sql_of

revision = "pages_0001"
down_revision = None
branch_labels = "pages"
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    execute_sql_of(__file__)
