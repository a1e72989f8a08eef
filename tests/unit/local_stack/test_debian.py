"""Programs that only Debian has."""

from pathlib import Path

import pytest

from local_stack import debian
from local_stack.errors import StackError


def test_a_program_that_cannot_be_installed_here_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("local_stack.debian.os.geteuid", lambda: 1000)
    with pytest.raises(StackError, match=r"no-such-server is not installed, .* Debian's package no-such-package"):
        debian.find_program("no-such-server", "no-such-package")


def test_a_program_of_administrators_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "a-server"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert debian.find_program("a-server", "a-package") == program
