"""The tables of the database, from the statements that create them and the comments in front of their columns."""

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap
from typing import Final

import workorders

_TABLE: Final = re.compile(r"^CREATE (?:UNLOGGED )?TABLE workorders\.(\w+) \(\n((?:.*\n)*?)\)", re.M)
_COLUMN: Final = re.compile(r"((?:^    --.*\n)*)^    ([a-z]\w*) ([^\n]*?),?$", re.M)


def table_reference(*names: str) -> str:
    """Return a section for each of these tables, with its columns."""
    folder = Path(workorders.__file__).parent
    statements = "\n".join(
        path.read_text(encoding="utf-8") for path in sorted(folder.rglob("migrations/versions/*.sql"))
    )
    tables = {name: "\n\n".join(_section(name, body)) for name, body in _TABLE.findall(statements)}
    return "\n\n".join(tables[name] for name in names)


def _section(name: str, body: str) -> Iterator[str]:
    yield f"### `{name}`"
    columns = [(column, _type(definition), _prose(note)) for note, column, definition in _COLUMN.findall(body)]
    yield "\n".join(wrap(", ".join(f"`{column}` {type_}" for column, type_, _ in columns), 128))
    if notes := [f"- `{column}`: {note}" for column, _, note in columns if note]:
        yield "\n".join(notes)


def _type(definition: str) -> str:
    """Return the type of a column and whether it may be null, without its default and its constraints."""
    type_ = re.split(
        r" (?:NOT NULL|DEFAULT|GENERATED|PRIMARY|REFERENCES|UNIQUE|CHECK|CONSTRAINT|STORAGE|COLLATE)\b", definition
    )[0]
    return type_.removeprefix("workorders.")


def _prose(comment: str) -> str:
    """Return a comment as text, with what could be read as markup escaped."""
    lines = [line.strip().removeprefix("--").strip() for line in comment.strip().splitlines()]
    return re.sub(r"([*_<|])", r"\\\1", " ".join(lines))
