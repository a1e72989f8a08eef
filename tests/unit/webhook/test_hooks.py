"""The folder of trigger files, as the server reads it again and again."""

from pathlib import Path

import pytest

from support.definition_files import write_definitions
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.webhook.hooks import TriggerFolder


def test_a_changed_workflow_file_changes_the_stamp_of_a_trigger_which_is_then_read_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WORKORDERS_WORKFLOWS", raising=False)
    shop = {"name": "shop", "type": "webhook", "workflow": "ship", "authentication": "public"}
    folder = TriggerFolder(write_definitions(tmp_path / "triggers", shop))
    stamps = [folder.stamps()]
    assert folder.stamps() == stamps[0]
    for timeout in (1, 22):
        ship = {"name": "ship", "callable": "shop:ship", "timeout": timeout}
        write_definitions(tmp_path / "workflows", ship)
        stamps.append(folder.stamps())
        assert stamps[-1] not in stamps[:-1]
        (definition,), _ = folder.load()
        assert definition.found_workflow == WorkflowDefinition.model_validate(ship)


def test_a_file_that_cannot_be_read_is_a_mistake_and_closes_no_webhook(tmp_path: Path) -> None:
    shop = {"name": "shop", "type": "webhook", "workflow": "ship", "authentication": "public"}
    (write_definitions(tmp_path / "triggers", shop) / "a.yaml").symlink_to("/nowhere")
    folder = TriggerFolder(tmp_path / "triggers")
    folder.stamps()
    (definition,), (mistake,) = folder.load()
    assert (definition.name, mistake.source) == ("shop", tmp_path / "triggers" / "a.yaml")
