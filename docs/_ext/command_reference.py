"""Every command of `workorders`, from the command line itself."""

import re
from collections import Counter
from collections.abc import Iterator
from inspect import cleandoc
from textwrap import dedent
from typing import Any, Final

import typer

from workorders.cli.main import app


def command_reference() -> str:
    """Return a section for the options that several commands have, and one for every command."""
    # Any: typer brings its own copy of click, or uses the installed one, depending on its version.
    root: Any = typer.main.get_command(app)
    context = root.context_class(root, info_name="workorders")
    rows = Counter(row for command, _ in _all(root, context) for row in _rows(command))
    common = [row for row, commands in rows.items() if commands >= _SEVERAL and row.startswith("| `--")]
    text, examples = _parted(root.help)
    table = "\n".join([*_HEAD, *sorted(common)])
    start = [text, f"```sh\n{examples}\n```", f"### Common options\n\n{table}"]
    return "\n\n".join(
        [*start, *(part for command, at in _all(root, context) for part in _section(command, at, common))]
    )


def _all(command: Any, context: Any) -> Iterator[tuple[Any, Any]]:
    """Give every command below one, with its context."""
    for name, part in getattr(command, "commands", {}).items():
        at = part.context_class(part, info_name=name, parent=context)
        yield part, at
        yield from _all(part, at)


def _section(command: Any, context: Any, common: list[str]) -> Iterator[str]:
    rows, pieces = [], []
    if not getattr(command, "commands", {}) or command.invoke_without_command:
        rows = _rows(command)
        pieces = [piece for piece in command.collect_usage_pieces(context) if piece != "[OPTIONS]"]
    yield f"{'###' if context.parent.parent is None else '####'} `{' '.join([context.command_path, *pieces])}`"
    description, examples = _parted(command.help)
    yield description
    if own := [row for row in rows if row not in common]:
        yield "\n".join([*_HEAD, *own])
    if shared := [re.findall(r"`(--[a-z-]+)", row)[0] for row in rows if row in common]:
        yield f"[Common options](#common-options): {', '.join(f'`{name}`' for name in shared)}."
    if examples:
        yield f"```sh\n{examples}\n```"


def _rows(command: Any) -> list[str]:
    return [row for parameter in command.params if (row := _row(parameter))]


def _row(parameter: Any) -> str | None:
    if parameter.hidden or parameter.name in {"help", "install_completion", "show_completion"}:
        return None
    is_option = parameter.param_type_name == "option"
    names = (
        [f"{name} {parameter.metavar or ''}".strip() for name in parameter.opts] if is_option else [parameter.metavar]
    )
    notes = []
    if parameter.required and is_option:  # the heading shows the arguments that are required
        notes.append("Required.")
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
        if text.startswith(("Examples:\n", "Example:\n")):
            examples = dedent(text.partition("\n")[2])
        else:
            parts.append(f"```text\n{text}\n```" if laid_out else re.sub(_CODE, r"`\1`", text))
    return "\n\n".join(parts), examples


_SEVERAL: Final = 3
"""Commands that have the same option, from which on it is explained once."""
_HEAD: Final = ("| argument or option | meaning |", "| --- | --- |")
_KEEP_LINES: Final = "\b\n"
_CODE: Final = r"(?<![\w`-])(--[a-z][a-z-]*|WORKORDERS_[A-Z_]+)"
