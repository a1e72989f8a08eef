import os
from pathlib import Path

import pytest

from local_stack.stack import LocalStack
from workorders.core.exceptions import ConfigurationError
from workorders.kafka.spark import class_archive
from workorders.kafka.spark.class_archive import create_archive, find_archive

pytestmark = pytest.mark.integration


def test_an_archive_that_exists_is_not_recreated(stack: LocalStack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_archive, "_train", lambda *_: pytest.fail("it was re-created"))
    assert create_archive(stack.spark_jars) == find_archive(stack.spark_jars)


def test_other_jars_need_another_archive(stack: LocalStack, tmp_path: Path) -> None:
    other = tmp_path / "other.jar"
    other.touch()
    assert find_archive([*stack.spark_jars, other]) is None


def test_an_application_that_fails_leaves_no_archive_and_tells_why(
    stack: LocalStack, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:+NoSuchOption")
    with pytest.raises(ConfigurationError, match="The archive of Spark's classes was not made: spark-submit ended"):
        create_archive(stack.spark_jars)
    assert [path.name for path in (tmp_path / "workorders" / "class-data").iterdir()] == []
    assert not os.environ.get("SPARK_SUBMIT_OPTS")
