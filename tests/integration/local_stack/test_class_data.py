import subprocess
from pathlib import Path

import pytest

from local_stack import class_data
from local_stack.java import find_java
from local_stack.stack import LocalStack

pytestmark = pytest.mark.integration


def test_spark_submit_loads_its_classes_from_the_archive(stack: LocalStack, tmp_path: Path) -> None:
    loaded = tmp_path / "loaded.txt"
    environment = stack.environment()
    environment["SPARK_SUBMIT_OPTS"] += f" -Xlog:class+load:file={loaded}"
    done = subprocess.run(["spark-submit", "--version"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    submit = [line for line in loaded.read_text().splitlines() if " org.apache.spark.deploy.SparkSubmit source" in line]
    assert [line.endswith("source: shared objects file (top)") for line in submit] == [True], submit


def test_an_archive_that_exists_is_not_made_again(stack: LocalStack) -> None:
    said: list[str] = []
    assert class_data.archive(find_java(), say=said.append) == stack.spark_classes
    assert said == []
