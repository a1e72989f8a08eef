"""The releases of Airflow that the package installs beside, and the constraints by which people install each."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from configparser import ConfigParser
from pathlib import Path

from local_stack.stack import CHECKOUT

RELEASED = {"3.2.2": "2026-05-30", "3.3.0": "2026-07-07", "3.3.1": "2026-08-13", "3.3.2": "2026-09-18"}
"""The day after each version was released: packages that are newer did not exist for it."""
EXTRAS = ("airflow", "kafka", "spark")
"""What the package needs where Airflow runs."""
HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
"""The version of Python that runs the tests."""
_PROVIDERS = ("apache-kafka", "apache-spark", "postgres", "standard")
_UV = Path(sys.executable).with_name("uv")


def find_python(version: str) -> str | None:
    """Return the program of a Python that is installed here; None if there is none."""
    if version == HERE:
        return sys.executable
    program = shutil.which(f"python{version}")
    if program is None:
        return None
    # pyenv's program of this name asks for the version.
    command = [program, "-c", "import sys; print(sys.executable)"]
    environment = {**os.environ, "PYENV_VERSION": version}
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return found.stdout.strip() or None


def constraints_of_the_day(release: str, python: str, file: Path) -> Path:
    """Write the versions that Airflow and its providers had on the day of a release, and return the file.

    Airflow's own constraints are made in this way, with all providers; their files are on GitHub only.
    """
    wanted = [f"apache-airflow=={release}", *(f"apache-airflow-providers-{name}" for name in _PROVIDERS)]
    compile_requirements(wanted, python, file, "--exclude-newer", RELEASED[release])
    return file


def our_requirements() -> list[str]:
    """Return what the package needs where Airflow runs."""
    settings = ConfigParser()
    settings.read(CHECKOUT / "setup.cfg")
    extras = [settings["options.extras_require"][extra] for extra in EXTRAS]
    lines = "\n".join([settings["options"]["install_requires"], *extras]).splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def compile_requirements(wanted: Iterable[str], python: str, file: Path, *options: str | Path) -> None:
    """Write the versions that fit requirements and that version of Python.

    Raises:
        subprocess.CalledProcessError: none fit; the test's output has the reason.
    """
    command: list[str | Path] = [_UV, "pip", "compile", "--quiet", "--no-header", "--no-annotate"]
    command += ["--no-python-downloads", "--python-version", python, *options, "--output-file", file, "-"]
    subprocess.run(command, input="\n".join(wanted), text=True, check=True)
