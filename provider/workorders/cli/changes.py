"""What every command asks before it changes something: the reason, the actor, and one confirmation."""

import os
import pwd
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from workorders.cli.options import Actor, AsJson, Database, DryRun, Reason, ReasonUnlessDryRun, Yes
from workorders.core.attribution import Attribution

if TYPE_CHECKING:
    from workorders.core.postgres.connection import Connection


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
        """Require the reason.

        Raises:
            typer.BadParameter: it is empty.
        """
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

    reason: ReasonUnlessDryRun = ""
    dry_run: DryRun = False
    as_json: AsJson = False

    def __post_init__(self) -> None:
        """Require the reason of what is more than a dry run."""
        if not self.dry_run:
            super().__post_init__()

    def confirm(self, *consequences: str) -> None:
        """Ask as any change does.

        Raises:
            typer.BadParameter: it would have to ask between lines of JSON.
        """
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
