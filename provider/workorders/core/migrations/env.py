"""Runs migrations on the connection that `workorders.core.schema` passes, or writes them as SQL."""

from alembic import context

attributes = context.config.attributes
settings = {"version_table_schema": attributes["version_table_schema"], "transaction_per_migration": False}
if context.is_offline_mode():
    context.configure(dialect_name="postgresql", **settings)
else:
    context.configure(connection=attributes["connection"], **settings)
with context.begin_transaction():
    for statement in attributes["before"]:
        context.execute(statement)
    context.run_migrations()
