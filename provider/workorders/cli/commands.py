"""The commands of `workorders`, each imported when it is named: importing all of them takes longer than most need."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperGroup

SUMMARIES: Final = {
    "status": "Show where every partition of the Kafka triggers stands.",
    "create": "Create one work order by hand, with who and why.",
    "decisions": "List what operators decided, newest first.",
    "db": "Upgrade the database's tables, and tell their version.",
    "triggers": "Show triggers, check their files, print their schema.",
    "work-orders": "List, count, show, rerun, cancel and export work orders.",
    "jobs": "Show, resume and cancel bulk jobs.",
    "search": "Keep the full text and the counts up to date.",
    "retention": "Wipe old inputs and delete old work orders.",
    "batches": "List batches, and show one with its ranges.",
    "workflows": "List, check and register workflows, print their schema.",
    "runs": "List and show runs, the attempts at work orders.",
    "resolve": "Decide how a partition goes on whose data Kafka lost.",
    "sequences": "Look at gaps in sequences, and decide how one goes on.",
    "outbox": "Look at the outbox, decide about what cannot be sent.",
}
"""What each command does, in the order of the help: known before the command is imported."""

_FUNCTIONS: Final = {"status": "status", "create": "create", "decisions": "resolve"}
"""The module of each command that is one function; any other command is the `app` of the module of its name."""


class Commands(Mapping[str, Any]):
    """Every command by its name; reading one imports it."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            if name not in SUMMARIES:
                raise KeyError(name)
            self._loaded[name] = _load(name)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(SUMMARIES)

    def __len__(self) -> int:
        return len(SUMMARIES)


class CommandGroup(TyperGroup):
    """The root of the command line; its help imports no command."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        # Typer only reads it.
        self.commands = Commands()  # type: ignore[assignment]

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, in the order of the help."""
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the names and summaries of the commands."""
        with formatter.section("Commands"):
            formatter.write_dl(list(SUMMARIES.items()))


def _load(name: str) -> Any:
    """Import a command and build it below a root with the settings that it would have had there from the start."""
    root = typer.Typer(rich_markup_mode=None)
    root.callback()(_nothing)
    if name in _FUNCTIONS:
        root.command(name)(getattr(import_module(f"workorders.cli.{_FUNCTIONS[name]}"), name))
    else:
        module = import_module(f"workorders.cli.{name.replace('-', '_')}")
        root.add_typer(module.app, name=name, short_help=SUMMARIES[name])
    group: Any = typer.main.get_command(root)
    return group.commands[name]


def _nothing() -> None:
    """Keep Typer from making a root with one command that command itself."""
