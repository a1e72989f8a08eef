"""Programs that Debian has and pip has not."""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from local_stack.errors import StackError

_INSTALL_SECONDS = 300.0


@cache
def find_program(name: str, package: str) -> Path:
    """Return a program; install its package by apt if that is possible here.

    Raises:
        StackError: It is neither installed nor can be.
    """
    if found := _find(name):
        return found
    if os.geteuid() == 0 and shutil.which("apt-get"):
        install = "apt-get update && apt-get install --yes --no-install-recommends"
        subprocess.run(
            ["sh", "-c", f"{install} {package}"],
            # A package must not start its own server: in run level 1 Debian starts none.
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"},
            check=False,
            capture_output=True,
            timeout=_INSTALL_SECONDS,
        )
        if found := _find(name):
            return found
    raise StackError(f"{name} is not installed, and apt cannot install it here. Install Debian's package {package}.")


def _find(name: str) -> Path | None:
    found = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin"]))
    return Path(found) if found else None
