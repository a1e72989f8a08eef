"""The `workorders` command of another environment, and of this one."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_OPTIONS = """
import json, typer
from workorders.cli.main import app

def options(command):
    own = sorted(name for part in command.params for name in (*part.opts, *part.secondary_opts))
    return {"": own, **{name: options(part) for name, part in getattr(command, "commands", {}).items()}}

print(json.dumps(options(typer.main.get_command(app))))
"""


def run_command(programs: Path, *arguments: str | Path, **variables: str) -> str:
    """Run the command that is installed in a folder of programs, without the checkout, and return what it prints."""
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [programs / arguments[0], *arguments[1:]]
    done = subprocess.run(command, env={**own, **variables}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def options_here() -> dict[str, Any]:
    """Return the commands of this environment, each with its options."""
    found: dict[str, Any] = json.loads(subprocess.check_output([sys.executable, "-c", _OPTIONS]))
    return found


def options_of(programs: Path) -> dict[str, Any]:
    """Return the same of what is installed in a folder of programs."""
    found: dict[str, Any] = json.loads(run_command(programs, "python", "-c", _OPTIONS))
    return found
