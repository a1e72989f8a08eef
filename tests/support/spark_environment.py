"""An environment with another Spark than the locked one, and everything else as it is locked."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from local_stack.stack import CHECKOUT

_UV = Path(sys.executable).with_name("uv")
_SECONDS = 900
_EXTRAS = "airflow,kafka,formats,spark,stack,test"
_INSTALLED = """
import json
from importlib.metadata import version
print(json.dumps([version(name) for name in ("pyspark", "pyspark-client", "apache-airflow")]))
"""


def create_environment(folder: Path, spark: str) -> Path:
    """Return the Python of a new environment with this PySpark and an editable installation of this checkout.

    The range of versions in setup.cfg must allow it, or uv finds no solution.
    """
    constraints = folder / "constraints.txt"
    folder.mkdir(parents=True)
    constraints.write_text(_locked_without_spark(), encoding="utf-8")
    _run(_UV, "venv", "--quiet", "--python", sys.executable, folder / "environment")
    python = folder / "environment" / "bin" / "python"
    _run(
        *(_UV, "pip", "install", "--quiet", "--python", python, "--constraint", constraints),
        *("--editable", f"{CHECKOUT}[{_EXTRAS}]", f"pyspark=={spark}", f"pyspark-client=={spark}"),
    )
    return python


def installed_versions(python: Path) -> list[str]:
    """Return the versions of PySpark, of its client, and of Airflow in an environment."""
    versions: list[str] = json.loads(_run(python, "-c", _INSTALLED))
    return versions


def _locked_without_spark() -> str:
    """Return the locked versions without hashes, because those of another Spark are in no lock."""
    lines = (CHECKOUT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    locked = [line.removesuffix(" \\") for line in lines if re.match(r"[a-z0-9]", line)]
    return "\n".join(line for line in locked if not line.startswith(("pyspark==", "pyspark-client==")))


def _run(*command: str | Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False, timeout=_SECONDS
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
