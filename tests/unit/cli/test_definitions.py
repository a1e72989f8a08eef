from pathlib import Path

import pytest

from workorders.cli.definitions import read_workflows


def test_the_workflows_are_next_to_the_folder_of_triggers_also_from_within_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WORKORDERS_WORKFLOWS", raising=False)
    for name in ("triggers", "workflows"):
        (tmp_path / name).mkdir()
    (tmp_path / "workflows" / "ship.yaml").write_text("name: ship\ncallable: shop:ship\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path / "triggers")
    assert [*read_workflows(Path()).definitions] == ["ship"]
