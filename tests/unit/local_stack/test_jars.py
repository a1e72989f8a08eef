import hashlib
from importlib.metadata import version
from pathlib import Path

import pytest

from local_stack import jars
from local_stack.errors import StackError
from local_stack.jars import Jar

CONTENT = b"what a jar holds"
JAR = Jar(group="spark", coordinate="org.example:thing_2.13:1.2.3", sha256=hashlib.sha256(CONTENT).hexdigest())


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    folder = tmp_path / "cache"
    folder.mkdir()
    return folder


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "jars.lock"
    monkeypatch.setattr(jars, "LOCK_FILE", file)
    monkeypatch.setattr(jars, "SPARK_LOCK_FILE", file)
    return file


def downloaded(folder: Path, content: bytes) -> Path:
    file = folder / JAR.filename
    file.write_bytes(content)
    return file


def test_a_lock_is_read_as_it_was_written() -> None:
    other = Jar(group="kafka", coordinate="org.example:other:4", sha256="0" * 64)
    assert jars.parse_lock(jars.format_lock([JAR, other])) == (other, JAR)


@pytest.mark.parametrize(
    "line",
    [
        "spark org.example:thing:1.2.3",
        "spark org.example:thing sha256:" + "0" * 64,
        "spark org.example:thing:1.2.3 sha256:" + "0" * 63,
        "spark org.example:thing:1.2.3 md5:" + "0" * 64,
        "org.example:thing:1.2.3 sha256:" + "0" * 64,
    ],
)
def test_a_line_that_is_no_pinned_jar_is_refused_with_its_number(line: str) -> None:
    with pytest.raises(StackError, match=r"Line 2 of jars\.lock"):
        jars.parse_lock(f"# a comment\n{line}\n")


def test_the_lock_of_the_repository_names_all_jars_that_the_resolver_starts_from() -> None:
    locked = {
        (jar.group, jar.coordinate)
        for jar in jars.parse_lock(jars.LOCK_FILE.read_text() + jars.SPARK_LOCK_FILE.read_text())
    }
    asked = {
        (group, name) for table in (jars.RESOLVED, jars.EXPLICIT) for group, names in table.items() for name in names
    }
    assert asked <= locked
    for spark in jars.EXPLICIT:
        assert {name for group, name in locked if group == spark} == set(jars.EXPLICIT[spark])


def test_the_installed_pyspark_has_jars_of_its_own_version() -> None:
    source = jars.EXPLICIT[jars.spark_group()][0]
    assert source.split(":")[2] == version("pyspark")


def test_a_download_with_the_right_checksum_enters_the_cache(tmp_path: Path, cache: Path) -> None:
    assert jars.admit(JAR, downloaded(tmp_path, CONTENT), cache).read_bytes() == CONTENT
    assert JAR.path(cache).exists()


def test_a_download_with_another_checksum_is_refused_and_never_in_the_cache(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(StackError, match=r"thing_2\.13-1\.2\.3\.jar has the checksum"):
        jars.admit(JAR, downloaded(tmp_path, CONTENT + b"!"), cache)
    assert list(cache.iterdir()) == []


def test_only_missing_jars_of_the_group_are_downloaded(
    cache: Path, lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Jar(group="kafka", coordinate="org.example:other:4", sha256="0" * 64)
    lock.write_text(jars.format_lock([JAR, other]))
    asked: list[Jar] = []
    monkeypatch.setattr(jars, "download", lambda jar, _: asked.append(jar))
    assert jars.fetch("spark", cache=cache) == [JAR.path(cache)]
    assert asked == [JAR]
