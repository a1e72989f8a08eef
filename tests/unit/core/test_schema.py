"""Which revisions there are, and what finding out about them loads."""

import subprocess
import sys
from importlib.metadata import EntryPoint
from importlib.resources import files
from types import SimpleNamespace
from typing import Any

import pytest
from alembic.script import ScriptDirectory

from workorders.core import schema
from workorders.core.exceptions import SchemaError

IMPORT_ALL = """
import importlib, pkgutil, sys
import workorders

for module in pkgutil.walk_packages(workorders.__path__, "workorders."):
    # Airflow loads SQLAlchemy itself, and the pages run in its API server.
    if not {"airflow", "pages", "migrations", "__main__"} & set(module.name.split(".")):
        importlib.import_module(module.name)
        print(module.name)
print(sys.modules["workorders.core.schema"].newest())
print(*sorted({"alembic", "sqlalchemy"} & set(sys.modules)))
"""


def test_nothing_but_an_upgrade_loads_sqlalchemy() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORT_ALL], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *imported, newest, loaded = done.stdout.splitlines()
    assert {"workorders.cli.maintenance", "workorders.kafka.ingest.transaction", "workorders.outbox.enqueue"} <= set(
        imported
    )
    assert (newest, loaded) == (schema.newest(), "")


def test_the_version_that_file_names_tell_is_the_one_that_alembic_upgrades_to() -> None:
    branches = schema._branches()
    scripts = ScriptDirectory(
        str(files("workorders.core.migrations")),
        version_locations=[str(files(package)) for package in branches.values()],
    )
    heads = [scripts.get_revision(f"{branch}@head") for branch in branches]
    assert ", ".join(sorted(head.revision for head in heads if head)) == schema.newest()
    assert sorted(scripts.get_heads()) == schema.newest().split(", ")


def test_the_core_is_upgraded_before_the_packages_whose_tables_refer_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [EntryPoint(name, f"workorders.{name}", schema.MIGRATIONS_GROUP) for name in ("kafka", "core", "audit")]
    monkeypatch.setattr(schema, "entry_points", lambda group: found)
    assert list(schema._branches()) == ["core", "audit", "kafka"]


def server(number: int, text: str) -> Any:
    """Return a connection to a server of this version."""
    return SimpleNamespace(info=SimpleNamespace(server_version=number, parameter_status={"server_version": text}.get))


def test_a_server_that_is_too_old_is_refused_with_what_to_do() -> None:
    with pytest.raises(SchemaError, match="is PostgreSQL 15, and the tables need 16 or newer; nothing was changed"):
        schema.require_postgres(server(150_014, "15.14"))


def test_a_newer_server_is_named_without_its_package() -> None:
    assert schema.require_postgres(server(160_004, "16.4 (Debian 16.4-1)")) == "16.4"
