from pathlib import Path

import pytest

from workorders.core.definitions.loading import load_workflow, parse_trigger, yaml_files
from workorders.core.definitions.trigger import trigger_types
from workorders.core.exceptions import ConfigurationError


def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path) -> None:
    for text, sentence in (("- a\n", "a workflow file is a mapping"), ("a: [", "this is not YAML")):
        file = tmp_path / "ship.yaml"
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigurationError, match=f"^ship.yaml: {sentence}"):
            load_workflow(file)


def test_the_files_of_a_folder_come_by_name_and_a_missing_folder_is_reported(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", "notes.txt"):
        (tmp_path / name).touch()
    assert [path.name for path in yaml_files(tmp_path, "workflow")] == ["a.yml", "b.yaml"]
    with pytest.raises(ConfigurationError, match="does not exist"):
        yaml_files(tmp_path / "missing", "workflow")


def test_an_unknown_type_is_answered_with_those_that_there_are() -> None:
    with pytest.raises(ConfigurationError, match=r"^a\.yaml: type: expected one of cron, kafka, .*, got 'ftp'\.$"):
        parse_trigger({"type": "ftp"}, trigger_types(), where="a.yaml")
