"""What other users of the machine may have written is not executed."""

from pathlib import Path

import pytest

from workorders.core.exceptions import ConfigurationError
from workorders.kafka.spark.cache import cache_folder, make_cache_folder
from workorders.kafka.spark.class_archive import find_archive
from workorders.kafka.spark.installed_package import package_archive


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "workorders"


def test_the_cache_is_in_the_users_home_unless_the_desktop_standard_names_another_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, home: Path
) -> None:
    assert cache_folder("package") == home / "package"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder("package") == tmp_path / ".cache" / "workorders" / "package"
    assert not (tmp_path / ".cache").exists()


def test_a_folder_that_is_made_is_for_this_user_alone(home: Path) -> None:
    home.mkdir(parents=True)
    home.chmod(0o755)
    made = make_cache_folder("package")
    assert [folder.stat().st_mode & 0o777 for folder in (home, made)] == [0o700, 0o700]


@pytest.mark.parametrize("of_others", [".", "package", "class-data"])
def test_a_folder_that_others_may_write_to_is_refused(home: Path, of_others: str) -> None:
    for name in ("package", "class-data"):
        make_cache_folder(name)
    (home / of_others).chmod(0o775)
    if of_others != "class-data":
        with pytest.raises(ConfigurationError, match="not this user's alone"):
            package_archive()
    if of_others != "package":
        with pytest.raises(ConfigurationError, match="not this user's alone"):
            find_archive([])
