import stat
from pathlib import Path

import pytest

from local_stack.errors import StackError
from local_stack.java import find_java, parse_version


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ("no such thing", 0),
    ],
)
def test_the_major_version_is_read_from_what_java_prints(answer: str, version: int) -> None:
    assert parse_version(answer) == version


def a_java(folder: Path, version: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return folder


def test_java_home_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path, "21.0.1")))
    java = find_java()
    assert (java.home, java.version) == (tmp_path, 21)


def test_an_old_java_is_refused_by_name_and_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path, "11.0.2")))
    with pytest.raises(StackError, match=r"is Java 11 and 17 or newer is needed"):
        find_java()


def test_no_java_at_all_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StackError, match="Java 17 or newer was not found"):
        find_java()
