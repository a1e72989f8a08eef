"""The one stack of a checkout that ``up`` keeps running: the file that records it, and how others find it."""

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

_LINE = re.compile(r"export (?P<name>\w+)=(?P<value>.*)")
_PROCESSES = "WORKORDERS_STACK_PROCESSES"
_URL = "WORKORDERS_STACK_URL"

# These name the stack's temporary folder, and a shell may outlive it.
_NOT_FOR_SHELLS = {"TMPDIR", "SPARK_LOCAL_DIRS", "SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"}


@dataclass(frozen=True, kw_only=True)
class RunningStack:
    """A stack that ``up`` started and that still runs."""

    #: Process id and time of creation of the process that keeps the stack, and of its supervisor. The time tells them
    #: from later processes that were given the same id.
    processes: tuple[tuple[int, float], ...]
    #: The address of Airflow's pages.
    url: str

    def alive(self) -> list[psutil.Process]:
        """Return those of its processes that still run, the one that keeps the stack first."""
        return [process for process in map(_process, self.processes) if process is not None]


def environment_file(checkout: Path) -> Path:
    """Where ``up`` writes what a shell needs to work with the stack."""
    return checkout / "build" / "stack" / "environment.sh"


def write(file: Path, variables: Mapping[str, str], *, pids: tuple[int, ...], url: str) -> None:
    """Write the file of a running stack, in one step. It holds passwords, so that only its owner may read it."""
    processes = " ".join(f"{pid}:{psutil.Process(pid).create_time()}" for pid in pids)
    exported = {**variables, _PROCESSES: processes, _URL: url}
    lines = [
        f"export {name}={shlex.quote(value)}\n"
        for name, value in sorted(exported.items())
        if name not in _NOT_FOR_SHELLS
    ]
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
        stream.writelines(lines)
    partial.replace(file)


def find(file: Path) -> RunningStack | None:
    """Return the stack that the file names, None if there is no file or the stack has gone."""
    try:
        variables = read_variables(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    pairs = (pair.split(":") for pair in variables[_PROCESSES].split())
    stack = RunningStack(processes=tuple((int(pid), float(created)) for pid, created in pairs), url=variables[_URL])
    return stack if stack.alive() else None


def read_variables(text: str) -> dict[str, str]:
    """Return the variables that a file of ``export NAME=value`` lines sets."""
    matches = (_LINE.fullmatch(line) for line in text.splitlines())
    return {match["name"]: "".join(shlex.split(match["value"])) for match in matches if match}


def _process(identity: tuple[int, float]) -> psutil.Process | None:
    pid, created = identity
    try:
        process = psutil.Process(pid)
        return process if process.create_time() == created and process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.NoSuchProcess:
        return None
