"""The Java installation that Kafka and Spark run on."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from local_stack.errors import StackError
from workorders.kafka.spark.programs import java_home

OLDEST_VERSION = 17

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


@dataclass(frozen=True, kw_only=True)
class Java:
    """A Java installation."""

    #: What ``JAVA_HOME`` should be.
    home: Path
    #: The major version, such as 17.
    version: int

    @property
    def program(self) -> Path:
        """The ``java`` program."""
        return self.home / "bin" / "java"


def find_java() -> Java:
    """Return the Java of ``JAVA_HOME``, or else the one on the ``PATH``.

    Raises:
        StackError: There is none, or it is too old.
    """
    home = java_home()
    if home is None:
        raise StackError(
            f"Java {OLDEST_VERSION} or newer was not found; nothing was started; install it and try again."
        )
    found = home / "bin" / "java"
    answer = subprocess.run([found, "-version"], capture_output=True, text=True, check=False)
    version = parse_version(answer.stderr)
    if version < OLDEST_VERSION:
        raise StackError(
            f"{found} is Java {version} and {OLDEST_VERSION} or newer is needed; nothing was started; install it, or "
            "point JAVA_HOME to it, and try again."
        )
    return Java(home=home, version=version)


def parse_version(answer: str) -> int:
    """Return the major version from what ``java -version`` prints, 0 if it is not there."""
    match = _VERSION.search(answer)
    return int(match[1]) if match else 0
