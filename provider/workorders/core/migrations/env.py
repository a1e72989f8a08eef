"""Runs migrations on the connection that `workorders.schema` hands over."""

from alembic import context

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=context.config.attributes["target_metadata"],
    version_table_schema=context.config.attributes["version_table_schema"],
    include_schemas=True,
    transaction_per_migration=False,
)
with context.begin_transaction():
    context.run_migrations()
