"""Finding a workflow's function."""

import io
import logging
import sys

import pytest

from support import run_functions
from workorders.core.worker import child
from workorders.core.worker.child import load_function
from workorders.core.worker.exceptions import CallableUnavailableError


def test_a_function_is_found_by_its_name() -> None:
    assert load_function("support.run_functions:echo") is run_functions.echo


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("support.missing:echo", "ModuleNotFoundError"),
        ("support.run_functions:yielding", "yields"),
        ("support.run_functions:missing", "AttributeError"),
        ("support.run_functions:_WAYS", "no function"),
        ("support.run_functions:without_context", "cannot be called with an input and a context"),
        ("os:getpid", "cannot be called with an input and a context"),
    ],
)
def test_what_cannot_be_called_is_named_with_the_reason(name: str, reason: str) -> None:
    with pytest.raises(CallableUnavailableError, match=reason) as caught:
        load_function(name)
    assert name in str(caught.value)


def test_a_function_without_a_signature_is_accepted() -> None:
    assert load_function("builtins:dict").__name__ == "dict"


def test_a_log_record_goes_to_what_is_standard_error_now(monkeypatch: pytest.MonkeyPatch) -> None:
    handler, replaced = child.StandardError(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", replaced)
    handler.emit(logging.makeLogRecord({"msg": "written"}))
    assert replaced.getvalue() == "written\n"
