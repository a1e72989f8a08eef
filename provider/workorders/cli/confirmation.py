"""The one question before a command changes what cannot be changed back."""

import typer


def confirm(*consequences: str, yes: bool) -> None:
    """Print what will happen, if it is not printed yet, and ask; return if the answer is yes, or was given by `--yes`.

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
