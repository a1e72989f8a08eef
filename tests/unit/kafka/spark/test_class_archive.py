from pathlib import Path

import pytest

from workorders.kafka.spark import class_archive
from workorders.kafka.spark.class_archive import CLASS_PATH, use_archive

JARS = [Path("/jars/a.jar"), Path("/jars/b.jar")]


@pytest.fixture
def archive(monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive for every Java and any jars."""
    monkeypatch.setattr(class_archive, "find_archive", lambda _: Path("/cache/spark.jsa"))


@pytest.mark.usefixtures("archive")
def test_the_drivers_jvm_uses_the_archive_with_its_jars_and_keeps_its_own_options() -> None:
    assert use_archive({"spark.ui.enabled": "false", "spark.driver.extraJavaOptions": "-Da=b"}, JARS) == {
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": "-Da=b -XX:SharedArchiveFile=/cache/spark.jsa -Xshare:auto",
        CLASS_PATH: "/jars/a.jar:/jars/b.jar",
    }


@pytest.mark.usefixtures("archive")
def test_a_class_path_of_the_users_own_is_kept_because_the_archive_would_not_fit_it() -> None:
    conf = {CLASS_PATH: "/own/*"}
    assert use_archive(conf, JARS) == conf


def test_settings_are_kept_if_there_is_no_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_archive, "find_archive", lambda _: None)
    assert use_archive({"spark.ui.enabled": "false"}, JARS) == {"spark.ui.enabled": "false"}
