from pathlib import Path
from typing import Any

import pytest

from workorders.core.definitions.loading import WORKFLOWS, Workflows, load_workflow, parse_trigger, workflow_sources
from workorders.core.definitions.trigger import trigger_types
from workorders.core.exceptions import ConfigurationError


def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path) -> None:
    for text, sentence in (("- a\n", ": a workflow file is a mapping"), ("a: [", ", line 1: this is not YAML")):
        file = tmp_path / "ship.yaml"
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigurationError, match=f"^ship.yaml{sentence}"):
            load_workflow(file)


def test_the_files_of_a_folder_come_by_name_and_a_missing_folder_is_reported(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", "notes.txt"):
        (tmp_path / name).touch()
    assert [path.name for path in WORKFLOWS.files(tmp_path)] == ["a.yml", "b.yaml"]
    assert WORKFLOWS.files(tmp_path / "missing", may_be_missing=True) == []
    with pytest.raises(ConfigurationError, match="does not exist"):
        WORKFLOWS.files(tmp_path / "missing")


def test_an_unknown_type_is_answered_with_those_that_there_are() -> None:
    with pytest.raises(ConfigurationError, match=r"^a\.yaml: type: expected one of cron, kafka, .*, got 'ftp'\.$"):
        parse_trigger({"type": "ftp"}, trigger_types(), where="a.yaml")


def test_a_wrong_field_is_reported_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "ship.yaml"
    file.write_text(
        "name: ship\nretries:\n  attempts: 2\n  after: [lost,\n    late]\nlimits: {wating: 1}\n", encoding="utf-8"
    )
    with pytest.raises(ConfigurationError) as refused:
        load_workflow(file)
    retried, limit = str(refused.value).splitlines()
    assert retried.startswith("ship.yaml, line 4: retries.after: expected a list of some of failed, ")
    assert limit == "ship.yaml, line 6: limits.wating: there is no such field; did you mean waiting?"


def test_a_workflow_is_found_by_its_name_and_otherwise_the_mistake_of_what_may_define_it(tmp_path: Path) -> None:
    def found(name: str) -> Any:
        return Workflows(workflow_sources(WORKFLOWS.files(tmp_path), ())).find(name)

    (tmp_path / "a.yaml").write_text("name: ship\ncallable: shop:ship\n", encoding="utf-8")
    assert (found("ship").callable, found("bill")) == ("shop:ship", None)
    (tmp_path / "b.yaml").write_text("name: bill\n", encoding="utf-8")
    assert found("ship").callable == "shop:ship"
    assert str(found("bill")) == "b.yaml: expected either callable or dag_id."


def test_a_file_with_a_mistake_may_define_only_a_workflow_that_it_names(tmp_path: Path) -> None:
    (tmp_path / "ship.yaml").write_text("name: ship\ncallabel: shop:ship\n")
    found = Workflows(workflow_sources(WORKFLOWS.files(tmp_path), ()))
    assert "ship.yaml, line 2: callabel" in str(found.find("ship"))
    assert found.find("refund") is None
