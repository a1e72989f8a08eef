"""Whose account a command runs under."""

import os
import pwd

import pytest

from workorders.cli.account import account, signed


def test_the_account_is_the_operating_systems_in_any_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(variable, "another")
    assert account() == pwd.getpwuid(os.getuid()).pw_name


def test_an_account_without_a_name_is_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_000)
    assert account() == "user id 4000000000"


@pytest.mark.parametrize(
    ("name", "given", "shown"),
    [("ada", "ada", "ada"), ("ada", None, "ada"), ("ada", "grace", "ada (account grace)")],
)
def test_an_account_is_shown_where_it_is_another_name(name: str, given: str | None, shown: str) -> None:
    assert signed(name, given) == shown
