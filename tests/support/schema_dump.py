"""What an upgrade from nothing makes, as pg_dump writes it down; `make schema` writes it to the file of the test."""

import subprocess

from local_stack.postgres import _programs
from local_stack.stack import CHECKOUT, LocalStack

FILE = CHECKOUT / "tests" / "integration" / "core" / "schema.sql"
_LEFT_OUT = ("--", "SET ", "SELECT ", "\\")
"""How the lines begin that are about the dump and not about the tables: comments, settings, psql's own commands."""


def schema_dump(database_url: str) -> str:
    """Return tables, indexes, constraints, functions and grants, sorted by their names."""
    dump = subprocess.run(
        [
            *(_programs() / "pg_dump", "--schema-only", "--no-owner", "--schema=workorders"),
            *("--exclude-table=workorders.alembic_version", database_url),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    return "".join(f"{line}\n" for line in dump.stdout.splitlines() if line and not line.startswith(_LEFT_OUT))


if __name__ == "__main__":
    with LocalStack() as stack:
        FILE.write_text(schema_dump(stack.database_url), encoding="utf-8")
