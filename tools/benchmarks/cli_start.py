"""How long the command line takes from its start to its end, where its work itself takes no time."""

import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from local_stack.stack import CHECKOUT, LocalStack

COMMANDS: Final[Mapping[str, tuple[tuple[str, ...], float]]] = {
    "workorders --help": (("--help",), 0.4),
    "workorders triggers check": (("triggers", "check", str(CHECKOUT / "include" / "triggers")), 0.4),
    "workorders status": (("status",), 0.7),
}
"""Each command's arguments, and the seconds that it may take on two cores."""


def seconds(stack: LocalStack, arguments: tuple[str, ...], rounds: int) -> list[float]:
    """Run a command `rounds` times after one that is not counted, and return each run's wall-clock seconds.

    Raises:
        subprocess.CalledProcessError: the command failed.
    """
    program = str(Path(sys.executable).with_name("workorders"))
    taken = []
    for _ in range(rounds + 1):
        begun = time.monotonic()
        subprocess.run([program, *arguments], env=stack.environment(), check=True, capture_output=True)
        taken.append(time.monotonic() - begun)
    return taken[1:]
