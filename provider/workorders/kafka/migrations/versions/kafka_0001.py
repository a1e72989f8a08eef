"""The first tables of `kafka`: see the file of SQL with the same name."""

from workorders.core.migrations.ddl import execute_sql_of

revision = "kafka_0001"
down_revision = None
branch_labels = "kafka"


def upgrade() -> None:
    """Create the tables."""
    execute_sql_of(__file__)
