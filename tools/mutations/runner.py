"""Runs tests on a private copy of the checkout, and reads what became of each."""

import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from local_stack.stack import CHECKOUT
from mutations.mutation import CONTRACTS

_SECONDS = 900
# The first run has the tests of all mutations, which took 15 minutes next to other work.
_SECONDS_A_TEST = 20
_PARTS = (
    "provider",
    "include",
    "tests",
    "tools",
    "dags",
    "spark_apps",
    "docs",
    "setup.cfg",
    "setup.py",
    "pyproject.toml",
    "README.md",
)
_NOT_COPIED = shutil.ignore_patterns("__pycache__", "*.egg-info")


class Copy:
    """A copy of the checkout; the interpreter and its packages are the checkout's own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        for part in _PARTS:
            source = CHECKOUT / part
            if source.is_dir():
                shutil.copytree(source, home / part, ignore=_NOT_COPIED)
            else:
                shutil.copy2(source, home / part)

    @property
    def package(self) -> Path:
        """The folder of the package that mutations change."""
        return self.home / "provider" / "workorders"

    def restore(self) -> None:
        """Undo every mutation."""
        shutil.rmtree(self.package)
        shutil.copytree(CHECKOUT / "provider" / "workorders", self.package, ignore=_NOT_COPIED)

    def failed(self, tests: Sequence[str]) -> dict[str, bool | None]:
        """Run tests by their names; True where one failed, None where it did not come to an end as a test does.

        A parametrized test has failed when it failed for one of its parameters. An error outside of a test is no
        failure: a mutation that breaks the collection is caught by no test.
        """
        found: dict[str, bool | None] = dict.fromkeys(tests)
        if CONTRACTS in tests:
            found[CONTRACTS] = self._run([_program("lint-imports")]).returncode == 1
        named = [test for test in tests if test != CONTRACTS]
        if named:
            results = self._pytest(named)
            found |= {test: results.get(test) for test in named}
        return found

    def _pytest(self, tests: Sequence[str]) -> dict[str, bool]:
        report = self.home / "report.xml"
        report.unlink(missing_ok=True)
        options = ["-q", "-p", "no:cacheprovider", f"--junitxml={report}", "-o", "junit_family=xunit1"]
        command = [sys.executable, "-m", "pytest", *options, *(f"tests/{test}" for test in tests)]
        done = self._run(command, seconds=_SECONDS + _SECONDS_A_TEST * len(tests))
        (self.home / "output.txt").write_text(done.stdout + done.stderr, encoding="utf-8")
        return _read(report) if report.exists() else {}

    def _run(self, command: Sequence[str], *, seconds: float = _SECONDS) -> "subprocess.CompletedProcess[str]":
        path = os.pathsep.join(str(self.home / part) for part in ("provider", "include", "tests", "tools"))
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(
            command, cwd=self.home, env=environment, capture_output=True, text=True, check=False, timeout=seconds
        )


def _program(name: str) -> str:
    return str(Path(sys.executable).parent / name)


def _read(report: Path) -> dict[str, bool]:
    """Return for each test whether it failed; without those that ended in an error or were skipped."""
    outcomes: dict[str, set[str]] = defaultdict(set)
    for case in ET.parse(report).getroot().iter("testcase"):
        test = f"{case.get('file', '').removeprefix('tests/')}::{case.get('name', '').split('[')[0]}"
        outcomes[test] |= {child.tag for child in case if child.tag in {"failure", "error", "skipped"}} or {"passed"}
    return {test: "failure" in found for test, found in outcomes.items() if found <= {"failure", "passed"}}
