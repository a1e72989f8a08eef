"""The programs of a Spark application: `spark-submit`, Python, and Java.

Airflow's components are often started by their full path, as systemd does it. Their PATH then leads to neither the
`spark-submit` of their environment nor its Python, and Spark by itself takes the `python3` of the PATH.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from workorders.core.exceptions import ConfigurationError
from workorders.kafka.spark.network import is_one_process

PYTHON_VARIABLE: Final = "PYSPARK_PYTHON"
"""Spark's own variable for the Python of the executors, and of the driver unless the next variable is set."""
DRIVER_PYTHON_VARIABLE: Final = "PYSPARK_DRIVER_PYTHON"
"""Spark's own variable for the Python of the driver."""
_SECONDS: Final = 600.0
_OUTPUT_CHARACTERS: Final = 2000


def find_spark_submit(name: str = "spark-submit") -> str:
    """Return the path of `spark-submit`: next to this Python, where PySpark puts it, or else on the PATH.

    Raises:
        ConfigurationError: there is none.
    """
    here = Path(sys.executable).parent / name
    found = str(here) if here.is_file() else shutil.which(name)
    if found is None:
        raise ConfigurationError(
            f"{name} was found neither next to {sys.executable} nor on the PATH; nothing was submitted. Install "
            f"airflow-provider-workorders[spark] in this environment, or put {name} on the PATH of Airflow's workers."
        )
    return found


def python_variables(master: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which the driver on this machine is a process of this Python; none if one is given.

    Executors on other machines keep their own Python. Spark's settings `spark.pyspark.python` and
    `spark.pyspark.driver.python` win over these variables.
    """
    if PYTHON_VARIABLE in given or DRIVER_PYTHON_VARIABLE in given:
        return {}
    return {PYTHON_VARIABLE if is_one_process(master) else DRIVER_PYTHON_VARIABLE: sys.executable}


def java_home() -> Path | None:
    """Return the folder of the Java that Spark starts: that of JAVA_HOME, or else of the `java` on the PATH."""
    home = os.environ.get("JAVA_HOME")
    program = Path(home) / "bin" / "java" if home else shutil.which("java")
    return Path(program).resolve().parents[1] if program and Path(program).exists() else None


def run_here(
    arguments: Sequence[str], variables: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run an application of ours on one core of this machine, and wait for its end.

    Raises:
        ConfigurationError: there is no `spark-submit`.
    """
    return subprocess.run(  # noqa: S603 - arguments of this module
        [find_spark_submit(), "--master", "local[1]", *arguments],
        env={**os.environ, PYTHON_VARIABLE: sys.executable, **(variables or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
    )


def describe_end(done: "subprocess.CompletedProcess[str]") -> str:
    """Return how an application of ours has ended, with the end of its output."""
    end = done.stderr[-_OUTPUT_CHARACTERS:]
    return f"spark-submit ended with exit code {done.returncode}. Its output ends with\n{end}"
