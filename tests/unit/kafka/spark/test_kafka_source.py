from hashlib import sha256
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace

import pyspark
import pytest

from workorders.core.exceptions import ConfigurationError
from workorders.kafka.spark import kafka_source
from workorders.kafka.spark.kafka_source import EXCLUDED, checksums, download, package


def test_without_pyspark_there_is_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(kafka_source, "version", missing)
    with pytest.raises(ConfigurationError, match="install"):
        package()


def test_pyspark_has_every_dependency_that_is_left_out() -> None:
    jars = " ".join(path.name for path in Path(pyspark.__file__).with_name("jars").iterdir())
    artifacts = {name.partition(":")[2] for name in EXCLUDED.split(",")}
    assert {name for name in artifacts if f"{name}-" not in jars} == set()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The jars that a repository sends to Spark's resolver, and the checksums of the first two."""
    jars = {"a.jar": b"of a", "b.jar": b"of b"}

    def resolve(arguments: list[str]) -> SimpleNamespace:
        folder = Path(next(word for word in arguments if "spark.jars.ivy" in word).partition("=")[2]) / "jars"
        folder.mkdir(parents=True)
        for name, content in jars.items():
            (folder / name).write_bytes(content)
        return SimpleNamespace(returncode=0)

    known = {f"org.example:{name}:1": sha256(content).hexdigest() for name, content in jars.items()}
    monkeypatch.setattr(kafka_source, "run_here", resolve)
    monkeypatch.setattr(kafka_source, "checksums", lambda: known)
    return jars


def test_jars_are_kept_if_they_are_those_whose_checksums_the_package_has(
    sent: dict[str, bytes], tmp_path: Path
) -> None:
    assert download(tmp_path) == [tmp_path / "a.jar", tmp_path / "b.jar"]


@pytest.mark.parametrize("change", [{"b.jar": b"another"}, {"c.jar": b"one more"}, {"b.jar": None}])
def test_no_jar_is_kept_if_one_is_another_than_the_package_knows(
    sent: dict[str, bytes], tmp_path: Path, change: dict[str, bytes | None]
) -> None:
    for name, content in change.items():
        sent.pop(name, None)
        if content is not None:
            sent[name] = content
    with pytest.raises(ConfigurationError, match="none was kept"):
        download(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert [jar.name for jar in download(tmp_path, is_checked=False)] == sorted(sent)


def test_the_package_has_the_checksums_for_the_installed_pyspark_and_refuses_other_versions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert package() in checksums()
    monkeypatch.setattr(kafka_source, "version", lambda _: "4.9.9")
    assert checksums() == {}
    with pytest.raises(ConfigurationError, match="nothing was downloaded"):
        download(tmp_path)
