"""What is installed is what is here: a query or a migration that the wheel forgets fails only at its user's."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from local_stack.stack import CHECKOUT

pytestmark = pytest.mark.integration

_BUILT_FROM = ("setup.cfg", "pyproject.toml", "README.md", "LICENSE")
_PACKAGES = ("workorders", "airflow_provider_workorders")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy: what an earlier build left next to the sources would be packed as well."""
    folder = tmp_path_factory.mktemp("source")
    shutil.copytree(
        CHECKOUT / "provider", folder / "provider", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
    )
    for name in _BUILT_FROM:
        shutil.copy(CHECKOUT / name, folder)
    done = build(folder)
    assert done.returncode == 0, done.stderr
    (built,) = (folder / "dist").glob("*.whl")
    return built


def build(folder: Path) -> "subprocess.CompletedProcess[str]":
    program = Path(sys.executable).with_name("uv")
    return subprocess.run(
        # With the setuptools that `make install` has checked, and no other one.
        [
            *(program, "build", "--wheel", "--offline", "--no-build-isolation", "--python", sys.executable),
            *("--out-dir", folder / "dist", folder),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    sources = CHECKOUT / "provider"
    wanted = {
        str(path.relative_to(sources))
        for package in _PACKAGES
        for path in (sources / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert packed == wanted
    assert {Path(name).suffix for name in wanted} >= {".py", ".sql", ".typed"}
    assert {f"workorders/{room}/migrations/versions/{room}_0001.sql" for room in ("core", "kafka", "outbox")} <= packed
