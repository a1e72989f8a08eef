"""Holds the page on the command line to the commands: which of them write."""

import re
from collections.abc import Callable, Iterator
from inspect import unwrap
from types import FunctionType
from typing import Any

import typer

from support.documents import first_cells, section
from workorders.cli import connections, options
from workorders.cli.main import app

WRITES_WITHOUT_A_SESSION = {
    "workorders db migrate",
    "workorders webhooks serve",
    "workorders remove",
    "workorders start",
}
"""Alembic opens its own connections, and so does a server; the others write into Airflow's database."""


def commands(command: Any, name: str) -> Iterator[tuple[str, Callable[..., None]]]:
    """Give every command with the function that it calls."""
    for part, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, f"{name} {part}")
    if not hasattr(command, "commands") or command.invoke_without_command:
        yield name, unwrap(command.callback)


COMMANDS = dict(commands(typer.main.get_command(app), "workorders"))


def writes(function: Any) -> bool:
    """Tell whether a function of the command line opens a session that can write, by itself or by another one."""
    return reaches(function, lambda found: found is connections.connect_to_write, {connections.connect})


def exits(function: Any) -> bool:
    """Tell whether a function of the command line ends the command by an exit status, other than of an error."""
    return reaches(function, lambda found: "Exit" in found.__code__.co_names, {options.confirm})


def reaches(function: Any, wanted: Callable[[Any], bool], seen: set[Any]) -> bool:
    """Tell whether a function is wanted, or calls such a function of the command line that was not seen yet."""
    if wanted(function):
        return True
    seen.add(function)
    names = function.__code__.co_names
    called = [function.__globals__.get(name) for name in names]
    # A function of another module is called by an attribute of that module.
    called += [getattr(module, name, None) for module in called for name in names if hasattr(module, "__file__")]
    ours = [
        other
        for other in called
        if isinstance(other, FunctionType) and other.__module__.startswith("workorders.cli") and other not in seen
    ]
    return any(reaches(other, wanted, seen) for other in ours)


def test_the_table_of_what_writes_names_exactly_the_commands_that_do() -> None:
    named = [name for cell in first_cells(section("What writes")) for name in re.findall(r"`(.*?)`", cell)]
    found = {name for name, function in COMMANDS.items() if writes(function)} | WRITES_WITHOUT_A_SESSION
    assert sorted(named) == sorted(found)


def test_the_table_of_exit_statuses_names_exactly_the_commands_whose_help_does() -> None:
    rows = [cell for cell in first_cells(section("Output and exit status")) if "`workorders" in cell]
    named = {name for cell in rows for name in re.findall(r"`(workorders [^`]*?)(?: --check)?`", cell)}
    helps = {name for name, function in COMMANDS.items() if re.search("xits with 1", function.__doc__ or "")}
    assert named == helps
    assert {name for name, function in COMMANDS.items() if exits(function)} <= helps
