"""Options and arguments that several commands share, and what each command asks before a change."""

import os
import pwd
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from uuid import UUID

import typer

from workorders import times
from workorders.core.attribution import Attribution
from workorders.core.environment import DATABASE_CONNECTION, DATABASE_URL_VARIABLE, TRIGGERS_VARIABLE

if TYPE_CHECKING:
    from workorders.core.postgres.connection import Connection

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
BeforeId = Annotated[UUID | None, option("ID", "Only rows before the one with this id.", "--before")]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, max=10_000, help="Maximum number of rows.")]

Reason = Annotated[str, option("TEXT", "Reason, which is recorded.", "--reason")]
Actor = Annotated[str | None, option("NAME", "Person who asks or decides; your account if not given.", "--actor")]
Yes = Annotated[bool, typer.Option("--yes", help="Apply without confirmation.")]


@dataclass(frozen=True, kw_only=True)
class Listing:
    """The options of a command that lists numbered rows, page by page."""

    limit: Limit = 20
    before: Annotated[int | None, option("ID", "Only rows before the one with this number.", "--before")] = None
    as_json: AsJson = False
    database: Database = None


@dataclass(frozen=True, kw_only=True)
class ListingById(Listing):
    """The options of a command that lists rows with ids."""

    before: BeforeId = None  # type: ignore[assignment]


def account() -> str:
    """Return the name of the operating system's account; no option or environment variable can change it."""
    number = os.getuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:  # a container may run under any number
        return f"user id {number}"


@dataclass(frozen=True, kw_only=True)
class Change:
    """The options of a command that changes something."""

    reason: Reason
    actor: Actor = None
    yes: Yes = False
    database: Database = None

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise typer.BadParameter("expected the reason, which is recorded.", param_hint="--reason")

    @property
    def by(self) -> Attribution:
        """Return who makes the change, and why; the actor is the account if none was given."""
        return Attribution(self.actor or account(), self.reason, account())

    def confirm(self, *consequences: str) -> None:
        """Ask as the function `confirm` does."""
        confirm(*consequences, yes=self.yes)

    def record(self, connection: "Connection", action: str, **details: int | str) -> None:
        """Record the change, before it is made, where no other table does."""
        # Not above: commands that need no database do not wait for its driver.
        from workorders.core import operator_actions  # noqa: PLC0415

        operator_actions.record(connection, action, details, self.by)


@dataclass(frozen=True, kw_only=True)
class PreviewedChange(Change):
    """The options of a command that can show what it would change."""

    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Reason, which is recorded; required without --dry-run.")
    ] = ""
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")] = False
    as_json: AsJson = False

    def __post_init__(self) -> None:
        if not self.dry_run:
            super().__post_init__()

    def confirm(self, *consequences: str) -> None:
        """Ask as any change does, but not between lines of JSON."""
        if self.as_json and not self.yes:
            raise typer.BadParameter("--json cannot ask for confirmation, so it needs --dry-run or --yes.")
        super().confirm(*consequences)


def confirm(*consequences: str, yes: bool) -> None:
    """Print what will happen, and ask; return if the answer is yes, or was given by --yes.

    Raises:
        typer.Exit: the answer was no; the command ends with 1.
    """
    if yes:
        return
    for consequence in consequences:
        print(consequence)
    if not typer.confirm("Continue?"):
        print("Nothing was changed.")
        raise typer.Exit(1)


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
