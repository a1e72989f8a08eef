"""Runs the `workorders` command inside the test's process."""

import sys
from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from workorders.cli.main import main


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Return what a command printed as JSON, having ended well."""
        assert self.code == 0, self.err
        return orjson.loads(self.out)


class Command:
    """The command line, with an environment of the test's own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *arguments: str) -> Ended:
        """Run `workorders` with these arguments."""
        self._monkeypatch.setattr(sys, "argv", ["workorders", *arguments])
        self._capsys.readouterr()
        try:
            main()
            code: Any = 0
        except SystemExit as end:
            code = end.code
        printed = self._capsys.readouterr()
        return Ended(code or 0, printed.out, printed.err)
