"""`python -m words`: print each banned word and old name in the tracked files that people read; exit code 1 on any."""

import subprocess
import sys
from pathlib import Path

from local_stack.stack import CHECKOUT
from words.check import find

_CHECKED = (
    "provider",
    "dags",
    "spark_apps",
    "include",
    "docs/*.md",
    "*README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docker-compose.yaml",
    "Makefile",
)
"""Patterns of git, whose asterisk also crosses folders."""


def main() -> int:
    """Check the tracked files; 1 when one contains a banned word."""
    files = _files(CHECKOUT)
    findings = [(file, finding) for file in files for finding in find((CHECKOUT / file).read_text(encoding="utf-8"))]
    for file, finding in findings:
        print(f"{file}:{finding.line}: '{finding.word}': use {finding.use} ({finding.reason})")
    print(
        f"{len(findings)} banned words in {len(files)} files." if findings else f"No banned word in {len(files)} files."
    )
    return 1 if findings else 0


def _files(checkout: Path) -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *_CHECKED], cwd=checkout, capture_output=True, text=True, check=True
    ).stdout
    return [file for file in listed.split("\0") if (checkout / file).is_file()]


if __name__ == "__main__":
    sys.exit(main())
