"""Builds the wheel of this checkout."""

import shutil
import subprocess
import sys
from pathlib import Path

from local_stack.stack import CHECKOUT

_BUILT_FROM = ("setup.cfg", "pyproject.toml", "README.md", "LICENSE")
_SECONDS = 120


def build_wheel(folder: Path) -> Path:
    """Return the wheel, built in this new folder from a copy: what an earlier build left would be packed as well."""
    shutil.copytree(
        CHECKOUT / "provider", folder / "provider", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
    )
    for name in _BUILT_FROM:
        shutil.copy(CHECKOUT / name, folder)
    # With the setuptools that `make install` has checked, and no other one.
    out = str(folder / "dist")
    options = ["--wheel", "--offline", "--no-build-isolation", "--python", sys.executable, "--out-dir", out]
    done = subprocess.run(
        [Path(sys.executable).with_name("uv"), "build", *options, folder],
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    (built,) = (folder / "dist").glob("*.whl")
    return built
