import sys
from pathlib import Path

import pytest

from workorders.core.exceptions import ConfigurationError
from workorders.kafka.spark.programs import find_spark_submit, java_home, python_variables


def a_program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o755)
    return path


def test_spark_submit_is_the_one_next_to_this_python_and_else_the_one_on_the_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "environment" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    with pytest.raises(ConfigurationError, match=r"neither next to .*/environment/python nor on the PATH"):
        find_spark_submit()
    on_path = a_program(tmp_path / "path" / "spark-submit")
    assert find_spark_submit() == str(on_path)
    own = a_program(tmp_path / "environment" / "spark-submit")
    assert find_spark_submit() == str(own)
    assert find_spark_submit(str(on_path)) == str(on_path)


def test_the_executors_of_another_machine_keep_their_python() -> None:
    assert python_variables("local[2]", {}) == {"PYSPARK_PYTHON": sys.executable}
    assert python_variables("spark://a:7077", {}) == {"PYSPARK_DRIVER_PYTHON": sys.executable}
    assert python_variables("yarn", {"PYSPARK_PYTHON": "/mine"}) == {}


def test_java_is_that_of_java_home_and_else_the_one_on_the_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    a_program(tmp_path / "on-path" / "bin" / "java")
    monkeypatch.setenv("PATH", str(tmp_path / "on-path" / "bin"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert java_home() == tmp_path / "on-path"
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "named"))
    assert java_home() is None
    a_program(tmp_path / "named" / "bin" / "java")
    assert java_home() == tmp_path / "named"
