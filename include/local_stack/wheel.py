"""An environment with the wheel of this checkout and nothing else of it, as after an installation."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from local_stack.errors import StackError
from local_stack.stack import CHECKOUT

_BUILT_FROM = ("setup.cfg", "pyproject.toml", "README.md", "LICENSE")
_UV = Path(sys.executable).with_name("uv")
_SECONDS = 600.0
CONSTRAINTS = CHECKOUT / "constraints.txt"
"""Versions that are known to work together."""
# Variables by which the programs of a stack find the checkout.
_FROM_THE_CHECKOUT = (
    "PYTHONPATH",
    "WORKORDERS_TRIGGERS",
    "WORKORDERS_WORKFLOWS",
    "WORKORDERS_SPARK_APPS",
    "WORKORDERS_SPARK_JARS",
)


@dataclass(frozen=True, kw_only=True)
class Installation:
    """The wheel in an environment of its own, and a folder of definitions."""

    #: The folder of the environment's programs.
    programs: Path
    #: The folder that `workorders init` has made.
    definitions: Path

    @property
    def environment(self) -> dict[str, str]:
        """Variables for a stack whose Airflow knows the definitions and nothing of the checkout."""
        bundle = {
            "name": "workorders",
            "classpath": "workorders.airflow.bundle.WorkOrdersDagBundle",
            "kwargs": {"folder": str(self.definitions)},
        }
        return {
            **dict.fromkeys(_FROM_THE_CHECKOUT, ""),
            "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps([bundle]),
        }


def install(folder: Path, constraints: Path = CONSTRAINTS) -> Installation:
    """Build the wheel, and install it by constraints, and a folder of definitions, below a new folder.

    Raises:
        StackError: One of the steps failed.
    """
    wheel = build(folder / "source")
    python = folder / "environment" / "bin" / "python"
    _run(_UV, "venv", "--quiet", "--python", sys.executable, folder / "environment")
    _run(
        *(_UV, "pip", "install", "--quiet", "--compile-bytecode", "--python", python),
        *(f"{wheel}[airflow,kafka,spark]", f"apache-airflow=={version('apache-airflow')}"),
        *("--constraint", constraints),
    )
    made = Installation(programs=python.parent, definitions=folder / "workorders")
    _run(made.programs / "workorders", "init", made.definitions)
    return made


def build(folder: Path) -> Path:
    """Return the wheel, built in this new folder from a copy: what an earlier build left would be packed as well.

    Raises:
        StackError: It could not be built.
    """
    shutil.copytree(
        CHECKOUT / "provider", folder / "provider", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
    )
    for name in _BUILT_FROM:
        shutil.copy(CHECKOUT / name, folder)
    # With the setuptools that `make install` has checked, and no other one.
    options = ("--wheel", "--offline", "--no-build-isolation", "--python", sys.executable)
    _run(_UV, "build", *options, "--out-dir", folder / "dist", folder)
    (built,) = (folder / "dist").glob("*.whl")
    return built


def _run(*command: str | Path) -> None:
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, env=own, capture_output=True, text=True, check=False, timeout=_SECONDS)
    if done.returncode != 0:
        raise StackError(f"{' '.join(map(str, command))} failed; no stack was started: {done.stderr[-2000:]}")
