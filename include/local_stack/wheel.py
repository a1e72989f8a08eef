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

_BUILT_FROM = ("setup.cfg", "setup.py", "pyproject.toml", "README.md", "LICENSE")
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
class Stock:
    """An Airflow that is there before the package comes."""

    #: Its version.
    airflow: str = version("apache-airflow")
    #: The program of its Python.
    python: str = sys.executable
    #: The versions of everything else.
    constraints: Path = CONSTRAINTS
    #: Distributions that are there as well. Without Postgres's provider, Airflow has no driver for its database.
    others: tuple[str, ...] = ("apache-airflow-providers-postgres", "pandas")


@dataclass(frozen=True, kw_only=True)
class Installation:
    """The wheel in a separate environment, and a folder of definitions."""

    #: The folder of the environment's programs.
    programs: Path
    #: The folder that `workorders init` has made.
    definitions: Path
    #: The distributions and versions that were there before the wheel.
    before: frozenset[str]

    @property
    def environment(self) -> dict[str, str]:
        """Variables for a stack whose Airflow knows the definitions and nothing of the checkout."""
        local = "airflow.dag_processing.bundles.local.LocalDagBundle"
        bundles = [
            {"name": "dags-folder", "classpath": local, "kwargs": {}},
            {"name": "workorders", "classpath": local, "kwargs": {"path": str(self.definitions / "dags")}},
        ]
        return {
            **dict.fromkeys(_FROM_THE_CHECKOUT, ""),
            "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(bundles),
        }

    def distributions(self) -> frozenset[str]:
        """Return the distributions and versions that are there now.

        Raises:
            StackError: They could not be listed.
        """
        return _distributions(self.programs / "python")


def install(folder: Path, stock: Stock | None = None) -> Installation:
    """Build the wheel, and install it and a folder of definitions next to an Airflow, below a new folder.

    As the installation page has it: installed packages constrain those to install.

    Raises:
        StackError: One of the steps failed.
    """
    stock = stock or Stock()
    wheel = build(folder / "source")
    python = folder / "environment" / "bin" / "python"
    _run(_UV, "venv", "--quiet", "--no-python-downloads", "--python", stock.python, folder / "environment")
    wanted = (f"apache-airflow=={stock.airflow}", *stock.others)
    _install(python, *wanted, "--constraint", stock.constraints)
    before = _distributions(python)
    (folder / "installed.txt").write_text("\n".join(before), encoding="utf-8")
    _install(python, f"{wheel}[airflow,kafka,spark]", *_spark(before), "--constraint", folder / "installed.txt")
    made = Installation(programs=python.parent, definitions=folder / "workorders", before=before)
    _run(made.programs / "workorders", "init", made.definitions)
    return made


def _install(python: Path, *what: str | Path) -> None:
    _run(_UV, "pip", "install", "--quiet", "--python", python, *what)


def _distributions(python: Path) -> frozenset[str]:
    return frozenset(_run(_UV, "pip", "freeze", "--quiet", "--python", python).splitlines())


def _spark(before: frozenset[str]) -> tuple[str, str]:
    """Return PySpark and its client, in the version of the client that is there, or else in the one that is here."""
    there = next((line for line in before if line.startswith("pyspark-client==")), version("pyspark"))
    spark = there.rpartition("=")[2]
    return f"pyspark=={spark}", f"pyspark-client=={spark}"


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


def _run(*command: str | Path) -> str:
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, env=own, capture_output=True, text=True, check=False, timeout=_SECONDS)
    if done.returncode != 0:
        raise StackError(f"{' '.join(map(str, command))} failed; no stack was started: {done.stderr[-2000:]}")
    return done.stdout
