"""`python -m words` reports what it finds in tracked files, and nothing in the project."""

import subprocess
from pathlib import Path

import pytest

from words import __main__ as command


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository that the command checks."""
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    monkeypatch.setattr(command, "CHECKOUT", tmp_path)
    return tmp_path


def add(checkout: Path, file: str, text: str) -> None:
    (checkout / file).parent.mkdir(parents=True, exist_ok=True)
    (checkout / file).write_text(text, encoding="utf-8")
    subprocess.run(["git", "add", "--", file], cwd=checkout, check=True)


def test_the_project_contains_no_banned_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main() == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    "file",
    [
        "provider/workorders/a.py",
        "provider/workorders/sql/a.sql",
        "include/demo/a.yaml",
        "docs/a.md",
        "docs/how-to/b/c.md",
        "dags/a.py",
        "spark_apps/a.py",
        "README.md",
        "tests/README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "docker-compose.yaml",
    ],
)
def test_a_banned_word_in_a_checked_file_is_reported_and_fails(
    checkout: Path, capsys: pytest.CaptureFixture[str], file: str
) -> None:
    add(checkout, file, "Good.\n\nAmid a transaction.\n")
    assert command.main() == 1
    first, last = capsys.readouterr().out.splitlines()
    assert first == f"{file}:3: 'Amid': use during, within (archaic)"
    assert last == "1 banned words in 1 files."


@pytest.mark.parametrize("file", ["tools/words/banned.py", "tests/unit/test_a.py", "docs/schema/a.json"])
def test_a_banned_word_in_another_file_is_no_finding(checkout: Path, file: str) -> None:
    add(checkout, file, "Amid a transaction.\n")
    assert command.main() == 0


def test_a_file_that_git_does_not_track_is_not_read(checkout: Path) -> None:
    (checkout / "README.md").write_text("Amid a transaction.\n", encoding="utf-8")
    assert command.main() == 0


def test_a_tracked_file_that_was_removed_is_no_error(checkout: Path) -> None:
    add(checkout, "README.md", "Amid a transaction.\n")
    (checkout / "README.md").unlink()
    assert command.main() == 0
