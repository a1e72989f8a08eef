"""Prometheus' own tool, Debian's, which checks rules and the text of metrics."""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

_INSTALL_SECONDS = 300.0
_CHECK_SECONDS = 60.0


@cache
def promtool() -> str:
    """Return the path of the program; the test is skipped where it is neither installed nor can be."""
    if found := shutil.which("promtool"):
        return found
    if os.geteuid() == 0 and shutil.which("apt-get"):
        # Its service is not started where no init system runs.
        install = "apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends"
        subprocess.run(
            ["sh", "-c", f"{install} prometheus"], check=False, capture_output=True, timeout=_INSTALL_SECONDS
        )
        if found := shutil.which("promtool"):
            return found
    pytest.skip("promtool is not installed (Debian's package prometheus), and apt cannot install it here.")


def check(*arguments: str | Path, text: bytes = b"") -> str:
    """Run `promtool` with an input, and return what it printed; it must end without an error."""
    done = subprocess.run(
        [promtool(), *map(str, arguments)], input=text, capture_output=True, check=False, timeout=_CHECK_SECONDS
    )
    printed = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, printed
    return printed
