"""The DDL of a revision, from the SQL file next to it."""

from pathlib import Path

from alembic import op


def execute_sql_of(revision_file: str) -> None:
    """Write out the file of SQL that has the name of a revision, exactly as it is written."""
    op.get_context().impl.static_output(Path(revision_file).with_suffix(".sql").read_text(encoding="utf-8"))
