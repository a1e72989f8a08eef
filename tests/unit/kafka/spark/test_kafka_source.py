from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pyspark
import pytest

from workorders.core.exceptions import ConfigurationError
from workorders.kafka.spark import kafka_source
from workorders.kafka.spark.kafka_source import EXCLUDED, package


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
