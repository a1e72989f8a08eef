from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pyspark
import pytest

from workorders.core.exceptions import ConfigurationError
from workorders.kafka.spark import kafka_source
from workorders.kafka.spark.kafka_source import EXCLUDED, package, split_jars


def test_jars_are_separated_by_commas() -> None:
    assert split_jars("/jars/a.jar,/jars/b.jar") == [Path("/jars/a.jar"), Path("/jars/b.jar")]
    assert split_jars("") == split_jars(None) == []


def test_the_package_has_the_version_of_pyspark() -> None:
    assert package() == f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"


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
