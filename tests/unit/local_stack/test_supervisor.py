"""What the supervisor knows of its processes."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from local_stack.supervisor import Supervisor

PID = 4711


@dataclass
class Machine:
    """A machine on which every process gets the same id."""

    supervisor: Supervisor
    log: Path
    #: Whether the process that starts next has ended before the supervisor knows of it.
    short_lived: bool = False

    def start(self) -> None:
        command = {"do": "start", "name": "server", "command": ["server"], "environment": {}, "log": str(self.log)}
        assert self.supervisor.answer({**command, "farewell": 9, "user": None}) == {"pid": PID}

    def exit_code(self) -> int | None:
        code: int | None = self.supervisor.answer({"do": "status", "name": "server"})["exit_code"]
        return code


@dataclass
class Process:
    pid: int = PID


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    machine = Machine(Supervisor(tmp_path), tmp_path / "log")

    def popen(*_: Any, **__: Any) -> Process:
        if machine.short_lived:
            ended.append((PID, 0))
            machine.supervisor.reap()
        return Process()

    ended: list[tuple[int, int]] = []
    monkeypatch.setattr(subprocess, "Popen", popen)
    monkeypatch.setattr(os, "waitpid", lambda *_: ended.pop() if ended else (0, 0))
    machine.start()
    ended.append((PID, 256))
    return machine


def test_a_process_runs_that_was_given_the_id_of_one_that_ended(machine: Machine) -> None:
    assert machine.exit_code() == 1
    machine.start()
    assert machine.exit_code() is None


def test_a_process_that_ends_while_it_is_started_is_known_to_have_ended(machine: Machine) -> None:
    assert machine.exit_code() == 1
    machine.short_lived = True
    machine.start()
    assert machine.exit_code() == 0
