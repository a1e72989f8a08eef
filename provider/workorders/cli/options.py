"""Options and arguments that several commands share."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, TypeVar
from uuid import UUID

import typer

from workorders import times
from workorders.core.environment import DATABASE_CONNECTION, DATABASE_URL_VARIABLE, TRIGGERS_VARIABLE

T = TypeVar("T")


def option(metavar: str, help_: str, name: str, **settings: Any) -> Any:
    """Return an option without a default in its help.

    Its name is given, because some versions of Typer derive it from the metavar (`--STATE`).
    """
    return typer.Option(name, metavar=metavar, help=help_, show_default=False, **settings)


def _parser(read: Callable[[str], T | None], form: str) -> Callable[[str], T]:
    """Return what parses the text of an option; it raises `typer.BadParameter` with the right form."""

    def parse(text: str) -> T:
        found = read(text)
        if found is None:
            raise typer.BadParameter(f"expected {form}; got {text!r}.")
        return found

    return parse


parse_time = _parser(lambda text: times.parse(text, now=datetime.now(UTC)), times.FORM)
parse_seconds = _parser(times.parse_seconds, "a duration such as 90s, 15m, 2h, 7d")


def argument(metavar: str, help_: str, **settings: Any) -> Any:
    """Return an argument without a default in its help."""
    return typer.Argument(metavar=metavar, help=help_, show_default=False, **settings)


Database = Annotated[
    str | None,
    option(
        "URL",
        f"Database; default: Airflow's connection {DATABASE_CONNECTION}.",
        "--database",
        envvar=DATABASE_URL_VARIABLE,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON with stable keys.")]
DefinitionPath = Annotated[Path, argument("PATH", "File, or a folder of files.", exists=True)]
Folder = Annotated[Path | None, option("FOLDER", "Folder of the trigger files.", "--folder", envvar=TRIGGERS_VARIABLE)]

TriggerName = Annotated[str, argument("TRIGGER", "Name of the trigger.")]
OfTrigger = Annotated[str | None, option("NAME", "Only of this trigger.", "--trigger")]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, max=10_000, help="Maximum number of rows.")]
BeforeNumber = Annotated[int | None, option("ID", "Only rows before the one with this number.", "--before")]
BeforeId = Annotated[UUID | None, option("ID", "Only rows before the one with this id.", "--before")]

Reason = Annotated[str, option("TEXT", "Reason, which is recorded.", "--reason")]
ReasonUnlessDryRun = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Reason, which is recorded; required without --dry-run.")
]
Actor = Annotated[str | None, option("NAME", "Person who asks or decides; your account if not given.", "--actor")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", help="Apply without confirmation.")]


@dataclass(frozen=True, kw_only=True)
class Listing:
    """The options of a command that lists numbered rows, page by page."""

    limit: Limit = 20
    before: BeforeNumber = None
    as_json: AsJson = False
    database: Database = None


@dataclass(frozen=True, kw_only=True)
class ListingById(Listing):
    """The options of a command that lists rows with ids."""

    before: BeforeId = None  # type: ignore[assignment]


def takes(**makers: Callable[..., Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let a command have parameters that are made of several options each.

    Args:
        makers: by the name of the command's parameter, the function or the dataclass that makes its value; their
            parameters become options of the command.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        options = {name: signature(maker).parameters for name, maker in makers.items()}
        parameters: list[Parameter] = []
        for name, own in signature(command).parameters.items():
            parameters += options[name].values() if name in options else [own]

        @wraps(command)
        def with_values(**given: Any) -> None:
            made = {name: maker(**{part: given.pop(part) for part in options[name]}) for name, maker in makers.items()}
            command(**given, **made)

        # Typer reads both to know the options.
        with_values.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        vars(with_values)["__signature__"] = Signature(
            [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in parameters]
        )
        return with_values

    return decorate
