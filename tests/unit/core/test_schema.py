"""Which revisions there are, and what finding out about them loads."""

import subprocess
import sys
from importlib.metadata import EntryPoint
from importlib.resources import files

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


def test_an_installation_that_names_no_migrations_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "MIGRATIONS_GROUP", "workorders.none")
    with pytest.raises(SchemaError, match="names no migrations; nothing was changed; install it again"):
        schema.newest()
