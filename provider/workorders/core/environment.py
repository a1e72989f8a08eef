"""Environment variables that several parts read; the command line needs them before any of these parts."""

import os
from pathlib import Path
from typing import Final

from workorders.core.exceptions import ConfigurationError

THIS_MACHINE: Final = frozenset({"localhost", "127.0.0.1", "::1", "[::1]"})
"""Hosts to which a password may be sent in plain text."""
FILE_SUFFIX: Final = "_FILE"
"""Ends the name of a variable that names a file with the value, as Kubernetes and Docker mount secrets."""

DATABASE_URL_VARIABLE: Final = "WORKORDERS_DATABASE_URL"
"""The libpq URI of the database that holds the work orders. It may hold a password."""

DATABASE_CONNECTION: Final = "workorders_db"
"""The Airflow connection of the same database, unless a file names another one."""

TRIGGERS_VARIABLE: Final = "WORKORDERS_TRIGGERS"
"""The folder of the trigger files."""

SPARK_JARS_VARIABLE: Final = "WORKORDERS_SPARK_JARS"
"""The paths of the jars of Spark's Kafka source, with commas between them."""

SPARK_APPS_VARIABLE: Final = "WORKORDERS_SPARK_APPS"
"""The folder of another Spark application; the package's is used if not given."""


def trigger_folder(default: Path) -> Path:
    """Return the folder of trigger files: the environment's, or else the default."""
    return Path(os.environ.get(TRIGGERS_VARIABLE) or default)


def workflow_folder(default: Path) -> Path:
    """Return the folder of workflow files: the environment's, or else the default."""
    return Path(os.environ.get("WORKORDERS_WORKFLOWS") or default)


def workflow_modules() -> list[str]:
    """Return the modules whose decorated functions are workflows, as the environment names them."""
    return [name.strip() for name in os.environ.get("WORKORDERS_WORKFLOW_MODULES", "").split(",") if name.strip()]


def find_secret(name: str) -> str | None:
    """Return the value of a variable, else the text of the file that the variable with FILE_SUFFIX names.

    Returns:
        None if neither is set. White space at the end of a file is no part of its text.
    """
    value, path = os.environ.get(name), os.environ.get(f"{name}{FILE_SUFFIX}")
    if value or not path:
        return value or None
    try:
        return Path(path).read_text(encoding="utf-8").rstrip() or None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigurationError(
            f"The file {path} that {name}{FILE_SUFFIX} names cannot be read: {reason}. Nothing was done with it; mount "
            f"the secret there, or set {name}."
        ) from error
