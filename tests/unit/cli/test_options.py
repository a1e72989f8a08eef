"""What a command asks before it changes something."""

import os
import pwd

import pytest
import typer

from workorders.cli.options import Change, PreviewedChange, account


def test_the_account_is_the_operating_systems_in_any_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(variable, "another")
    by = Change(reason="x").by
    assert by.actor == by.account == account() == pwd.getpwuid(os.getuid()).pw_name


def test_an_account_without_a_name_is_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_000)
    assert account() == "user id 4000000000"


def test_only_a_dry_run_needs_no_reason() -> None:
    assert PreviewedChange(dry_run=True).reason == ""
    for kind in (Change, PreviewedChange):
        with pytest.raises(typer.BadParameter, match="expected the reason"):
            kind(reason=" ")
