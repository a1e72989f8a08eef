"""The package that travels is the one that is installed, and works from its zip file."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from workorders.core.exceptions import ConfigurationError
from workorders.kafka.spark import installed_package as module
from workorders.kafka.spark.installed_package import installed_package, package_archive

PROGRAM = """
import workorders.kafka.spark.partition_ingest as imported
from workorders.kafka.ledger.positions import _QUERIES
from workorders.kafka.spark.installed_package import installed_package
print(imported.__file__)
print("take_epoch" in _QUERIES)
print(installed_package())
"""


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_a_worker_that_imports_the_archive_has_the_package_of_the_task_with_its_byte_code_and_its_sql() -> None:
    archive = package_archive()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": str(archive)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [
        f"{archive}/workorders/kafka/spark/partition_ingest.pyc",
        "True",
        installed_package(),
    ]


def test_the_archive_is_made_once_and_is_all_that_is_left() -> None:
    archive = package_archive()
    made = archive.stat().st_mtime_ns
    assert package_archive().stat().st_mtime_ns == made
    assert list(archive.parent.iterdir()) == [archive]


def test_files_that_change_while_they_are_packed_make_no_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_digest", lambda: "0" * 12)
    with pytest.raises(ConfigurationError, match="are not those that this process began with; nothing was committed"):
        package_archive()
