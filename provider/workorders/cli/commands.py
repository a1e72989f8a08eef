"""The commands of `workorders`, each imported when it is named: importing all of them takes longer than most need."""

import re
from collections import UserDict
from collections.abc import Mapping
from functools import cache, partial
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

PANELS: Final[Mapping[str, Mapping[str, str]]] = {
    "Observe": {
        "doctor": "Check all that a message needs, and print what helps.",
        "status": "Show the state of every partition of the Kafka triggers.",
        "audit": "Compare what is stored with itself and with Kafka.",
        "work-orders": "List, count, show, rerun, cancel, and export work orders.",
        "runs": "List and show the runs of work orders.",
        "batches": "List batches, and show one with its offset ranges.",
        "decisions": "List what operators decided, newest first.",
        "actions": "List what operators did to the outbox and to data.",
    },
    "Act": {
        "start": "Check a trigger, unpause it, and wait for its first poll.",
        "create": "Create one work order by hand.",
        "resolve": "Decide how a partition continues after data loss in Kafka.",
        "sequences": "List gaps in sequences, and decide how one continues.",
        "bulk": "List, show, resume, and cancel bulk operations.",
        "outbox": "Show the outbox, release or purge held messages.",
    },
    "Configure": {
        "init": "Create a folder with a trigger and a workflow to begin with.",
        "triggers": "List triggers, check their files, print their schemas.",
        "workflows": "List, check, and apply workflows; print their schema.",
        "steps": "Create the table of context.transaction.",
        "webhooks": "List and store webhooks, and run a server for them.",
    },
    "Maintain": {
        "db": "Migrate the database's tables, and print their version.",
        "remove": "Delete the Dags of a trigger whose file is gone.",
        "retention": "Erase old inputs and delete old work orders.",
        "spark": "Run a Spark Connect server; get Spark's archive and jars.",
    },
}
"""What each command does, by panel and in the order of the help: known before the command is imported."""

SUMMARIES: Final = {name: summary for panel in PANELS.values() for name, summary in panel.items()}

_MODULES: Final = {
    **dict.fromkeys(("doctor", "remove"), "start"),
    "decisions": "resolve",
    "runs": "work_orders",
    **dict.fromkeys(("triggers", "workflows"), "definitions"),
    **dict.fromkeys(("actions", "db", "retention", "steps"), "maintenance"),
}
"""The modules with commands of other names than theirs; any other command is in the module of its name."""


class Commands(UserDict[str, Any]):
    """What loads each command, by its name; reading one loads it."""

    def __getitem__(self, name: str) -> Any:
        return super().__getitem__(name)()


class CommandGroup(TyperGroup):
    """The root of the command line; its help imports no command."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = Commands({name: partial(_load, name) for name in SUMMARIES})

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, in the order of the help."""
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the names and summaries of the commands, panel by panel."""
        for panel, summaries in PANELS.items():
            with formatter.section(panel):
                formatter.write_dl(list(summaries.items()))


class LeafCommand(TyperCommand):
    """A command without subcommands; its usage line names arguments as every other program does."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        # The mark by which click keeps the lines of a paragraph.
        self.help = re.sub(r"\n\n(?=Examples?\b)", "\n\n\b\n", self.help or "")

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words behind the name: `[OPTIONS] TRIGGER [TOPIC]`, where Typer has `{TRIGGER}`."""
        arguments = [parameter for parameter in self.params if isinstance(parameter, TyperArgument)]
        names = [str(argument.metavar) for argument in arguments]
        pieces = [name if argument.required else f"[{name}]" for argument, name in zip(arguments, names, strict=True)]
        return [self.options_metavar or "", *pieces]


@cache
def _load(name: str) -> Any:
    """Import a command and build it below a root with the settings that it would have had there from the start."""
    root = typer.Typer(rich_markup_mode=None)
    # Without a callback, Typer makes a root with one command that command itself.
    root.callback()(lambda: None)
    own_name = name.replace("-", "_")
    module = import_module(f"workorders.cli.{_MODULES.get(name, own_name)}")
    found = module.app if name not in _MODULES and hasattr(module, "app") else getattr(module, own_name)
    if isinstance(found, typer.Typer):
        for command in found.registered_commands:
            command.cls = LeafCommand
        found.info.help = SUMMARIES[name]
        root.add_typer(found, name=name, short_help=SUMMARIES[name])
    else:
        root.command(name, cls=LeafCommand)(found)
    group: Any = typer.main.get_command(root)
    return group.commands[name]
