"""The Python modules in a folder of definitions."""

import sys
from pathlib import Path

import pytest

from workorders.airflow.dags import folder_modules


@pytest.mark.parametrize("decorator", ["@workflow", "@workflow(ordering_key='key')", "@workorders.workflow"])
def test_a_decorated_function_in_the_folder_is_a_workflow_without_being_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decorator: str
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("WORKORDERS_WORKFLOW_MODULES", "shop.orders")
    text = f"import workorders\nfrom workorders import workflow\n\n\n{decorator}\ndef bill(order, context):\n    pass\n"
    (tmp_path / "billing_of_folder.py").write_text(text, encoding="utf-8")
    (tmp_path / "test_billing.py").write_text("from billing_of_folder import bill\n\nraise SystemExit\n", "utf-8")
    assert folder_modules(tmp_path) == folder_modules(tmp_path) == ["billing_of_folder", "shop.orders"]
    assert sys.path.count(str(tmp_path)) == 1
