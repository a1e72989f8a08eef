"""Every command of `workorders`, from the command line itself."""

import re
from collections.abc import Iterator
from inspect import cleandoc
from textwrap import dedent
from typing import Any, Final

import typer

from workorders.cli.main import app


def command_reference() -> str:
    """Return a section for every command, with its usage, its arguments, and its options."""
    # Any: typer brings its own copy of click, or uses the installed one, depending on its version.
    root: Any = typer.main.get_command(app)
    return "\n\n".join(_sections(root, root.context_class(root, info_name="workorders"), level=2))


def _sections(command: Any, context: Any, *, level: int) -> Iterator[str]:
    inner = getattr(command, "commands", {})
    if context.parent:
        yield f"{'#' * level} `{context.command_path}`"
    description, examples = _parted(command.help)
    yield description
    if not inner or command.invoke_without_command:
        usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
        yield f"```text\n{usage}\n```"
        if rows := [row for parameter in command.params if (row := _row(parameter, context))]:
            yield "\n".join(["| argument or option | meaning |", "| --- | --- |", *rows])
    if examples:
        yield f"```sh\n{examples}\n```"
    for name, part in inner.items():
        yield from _sections(part, part.context_class(part, info_name=name, parent=context), level=min(level + 1, 4))


def _row(parameter: Any, context: Any) -> str | None:
    if parameter.hidden or parameter.name in {"help", "install_completion", "show_completion"}:
        return None
    is_option = parameter.param_type_name == "option"
    names = (
        [f"{name} {parameter.metavar or ''}".strip() for name in parameter.opts] if is_option else [parameter.metavar]
    )
    notes = []
    if parameter.required:
        notes.append("Required.")
    if getattr(parameter, "multiple", False):
        notes.append("May be repeated.")
    if parameter.envvar:
        notes.append(f"Environment variable: `{parameter.envvar}`.")
    help_ = " ".join((parameter.help or "").split())
    meaning = " ".join([help_, *notes]).replace("|", "\\|")
    return f"| {', '.join(f'`{name}`' for name in names)} | {meaning} |".replace("FILE|FOLDER", "FILE\\|FOLDER")


def _parted(help_: str) -> tuple[str, str]:
    """Return the description and the examples of a help text; what is laid out in lines stays so."""
    parts, examples = [], ""
    for part in re.split(r"\n\s*\n", cleandoc(help_)):
        laid_out = part.startswith(_KEEP_LINES)
        text = part.removeprefix(_KEEP_LINES)
        if text.startswith("Examples:"):
            examples = dedent(text.removeprefix("Examples:\n"))
        else:
            parts.append(f"```text\n{text}\n```" if laid_out else re.sub(_CODE, r"`\1`", text))
    return "\n\n".join(parts), examples


_KEEP_LINES: Final = "\b\n"
_CODE: Final = r"(?<![\w`-])(--[a-z][a-z-]*|WORKORDERS_[A-Z_]+)"
