"""`python -m words` reports what it finds in the files that people read, and no more."""

import subprocess
from pathlib import Path

import pytest

from words import __main__ as command

CHECKED = (
    "provider/workorders/a.py",
    "provider/workorders/sql/a.sql",
    "include/demo/a.yaml",
    "docs/how-to/b/c.md",
    "dags/a.py",
    "spark_apps/a.py",
    "README.md",
    "tests/README.md",
    "docker-compose.yaml",
)
OTHERS = ("tools/words/banned.py", "tests/unit/test_a.py", "docs/schema/a.json", "docs/removed.md")


def test_a_banned_word_is_reported_in_each_file_that_is_checked_and_in_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    monkeypatch.setattr(command, "CHECKOUT", tmp_path)
    for file in (*CHECKED, *OTHERS):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("Good.\n\nAmid a transaction.\n", encoding="utf-8")
    subprocess.run(["git", "add", "--all"], cwd=tmp_path, check=True)
    (tmp_path / "docs" / "removed.md").unlink()
    (tmp_path / "untracked.md").write_text("Amid a transaction.\n", encoding="utf-8")
    assert command.main() == 1
    *lines, last = capsys.readouterr().out.splitlines()
    assert sorted(lines) == sorted(f"{file}:3: 'Amid': use during, within (archaic)" for file in CHECKED)
    assert last == f"{len(CHECKED)} banned words in {len(CHECKED)} files."
