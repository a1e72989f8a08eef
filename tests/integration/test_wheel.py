"""What is installed is what is here: a query or a migration that the wheel forgets fails only at its user's."""

import zipfile
from pathlib import Path

import pytest

from local_stack import wheel
from local_stack.stack import CHECKOUT

pytestmark = pytest.mark.integration

_PACKAGES = ("workorders", "airflow_provider_workorders")


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(tmp_path: Path) -> None:
    sources = CHECKOUT / "provider"
    wanted = {
        str(path.relative_to(sources))
        for package in _PACKAGES
        for path in (sources / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    built = wheel.build(tmp_path / "source")
    packed = {name for name in zipfile.ZipFile(built).namelist() if ".dist-info/" not in name}
    assert packed == wanted
    assert {Path(name).suffix for name in wanted} >= {".py", ".sql", ".typed"}
    assert {f"workorders/{room}/migrations/versions/{room}_0001.sql" for room in ("core", "kafka", "outbox")} <= packed
    assert "workorders/kafka/spark/apps/create_work_orders.py" in packed
