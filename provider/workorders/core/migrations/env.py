"""Runs migrations on the connection that `workorders.core.schema` passes."""

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    version_table_schema=context.config.attributes["version_table_schema"],
    transaction_per_migration=False,
)
with context.begin_transaction():
    context.run_migrations()
