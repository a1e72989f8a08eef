"""Runs the DDL of a revision from the SQL file next to it."""

from pathlib import Path

from alembic import op


def execute_sql_of(revision_file: str) -> None:
    """Execute the file of SQL that has the name of a revision, or write it out, exactly as it is written."""
    ddl = Path(revision_file).with_suffix(".sql").read_text(encoding="utf-8")
    if op.get_context().as_sql:
        op.get_context().impl.static_output(ddl)
        return
    # With parameters, even with none, psycopg would look for placeholders in it.
    op.get_bind().exec_driver_sql(ddl, execution_options={"no_parameters": True})
