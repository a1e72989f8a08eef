"""The commands of `workorders`, each imported when it is named: importing all of them takes longer than most need."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

PANELS: Final[Mapping[str, Mapping[str, str]]] = {
    "Observe": {
        "status": "Show the state of every partition of the Kafka triggers.",
        "work-orders": "List, count, show, rerun, cancel, and export work orders.",
        "runs": "List and show the runs of work orders.",
        "batches": "List batches, and show one with its offset ranges.",
        "decisions": "List what operators decided, newest first.",
    },
    "Act": {
        "create": "Create one work order by hand.",
        "resolve": "Decide how a partition continues after data loss in Kafka.",
        "sequences": "List gaps in sequences, and decide how one continues.",
        "jobs": "Show, resume, and cancel bulk jobs.",
        "outbox": "Show the outbox, release or purge held messages.",
    },
    "Configure": {
        "triggers": "List triggers, check their files, print their schemas.",
        "workflows": "List, check, and register workflows; print their schema.",
    },
    "Maintain": {
        "db": "Upgrade the database's tables, and print their version.",
        "retention": "Erase old inputs and delete old work orders.",
        "search": "Update the full-text index and the counts by state.",
        "spark": "Run a Spark Connect server for the batches.",
    },
}
"""What each command does, by panel and in the order of the help: known before the command is imported."""

SUMMARIES: Final = {name: summary for panel in PANELS.values() for name, summary in panel.items()}

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
        """Write the names and summaries of the commands, panel by panel."""
        for panel, summaries in PANELS.items():
            with formatter.section(panel):
                formatter.write_dl(list(summaries.items()))


class LeafCommand(TyperCommand):
    """A command without commands of its own; its usage line names arguments as every other program does."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words behind the name: `[OPTIONS] TRIGGER [TOPIC]`, where Typer has `{TRIGGER}`."""
        arguments = [parameter for parameter in self.params if isinstance(parameter, TyperArgument)]
        names = [str(argument.metavar) for argument in arguments]
        pieces = [name if argument.required else f"[{name}]" for argument, name in zip(arguments, names, strict=True)]
        return [self.options_metavar or "", *pieces]


def _load(name: str) -> Any:
    """Import a command and build it below a root with the settings that it would have had there from the start."""
    root = typer.Typer(rich_markup_mode=None)
    root.callback()(_nothing)
    if name in _FUNCTIONS:
        root.command(name, cls=LeafCommand)(getattr(import_module(f"workorders.cli.{_FUNCTIONS[name]}"), name))
    else:
        module = import_module(f"workorders.cli.{name.replace('-', '_')}")
        for command in module.app.registered_commands:
            command.cls = LeafCommand
        # A group that is a command as well has a longer text of its own.
        if not module.app.registered_callback:
            module.app.info.help = SUMMARIES[name]
        root.add_typer(module.app, name=name, short_help=SUMMARIES[name])
    group: Any = typer.main.get_command(root)
    return group.commands[name]


def _nothing() -> None:
    """Keep Typer from making a root with one command that command itself."""
