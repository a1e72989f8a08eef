"""Writes migrations as SQL, which `workorders.core.schema` executes, or prints."""

from alembic import context

from workorders.core.postgres.connection import SCHEMA

context.configure(dialect_name="postgresql", version_table_schema=SCHEMA, transactional_ddl=False)
context.run_migrations()
