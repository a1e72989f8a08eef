"""What the commands print: tables, JSON, and text that came from outside."""

import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar
from uuid import UUID

import orjson
import typer

from workorders import times
from workorders.core.states import WorkOrderState
from workorders.kafka.partitions import PartitionState
from workorders.text_table import text_table
from workorders.visible_text import safe

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")

_TONES: Final = {"bad": "bright_red", "warn": "yellow", "good": "green"}
_COLORS: Final = {
    **{str(state): _TONES[state.tone] for state in PartitionState if state.tone in _TONES},
    **{"rejected": "red", "failed": "red", "success": "green", "finished": "green"},
}


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """A column of a table."""

    heading: str
    value: Callable[[T], object]
    """Its value in a row, shown as `shown` does."""
    number: bool = False
    """Whether its values are aligned to the right."""


class Numbered(Protocol):
    """A row of a list that continues on another page."""

    @property
    def id(self) -> int | UUID:
        """Number or id, after which the next page continues."""


N = TypeVar("N", bound=Numbered)


def print_page(columns: Sequence[Column[N]], rows: Sequence[N], command: str, *, limit: int, **filters: object) -> None:
    """Print a page of a list; if it is full, its last line is the command for the next page.

    Args:
        columns: of the table.
        rows: of this page.
        command: which prints the list, such as `batches list`.
        limit: rows of a full page.
        filters: options of the command; None was not given.
    """
    print_table(columns, rows)
    if len(rows) == limit:
        options = {**filters, "limit": limit, "before": rows[-1].id}
        given = [(f"--{name.replace('_', '-')}", str(value)) for name, value in options.items() if value is not None]
        print(f"\nNext page: {shlex.join(['workorders', *command.split(), *chain(*given)])}")


def print_table(columns: Sequence[Column[T]], rows: Sequence[T]) -> None:
    """Print rows under headings: with colors on a terminal, as plain text to a file or a pipe.

    A column without a single value is left out.
    """
    cells = [[safe(shown(column.value(row))).replace("\n", " ") for column in columns] for row in rows]
    used = [place for place in range(len(columns)) if not rows or any(line[place] for line in cells)]
    columns = [columns[place] for place in used]
    cells = [[line[place] for place in used] for line in cells]
    has_colors = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    lines = [[column.heading for column in columns], *cells]
    numbers = {place for place, column in enumerate(columns) if column.number}
    print(text_table(lines, right=numbers, paint=_paint if has_colors else str))


def print_state_counts(counts: Mapping[str, int]) -> None:
    """Print numbers of work orders by state, and their sum."""
    rows = [(state.value, counts[state]) for state in WorkOrderState if state in counts]
    columns: Sequence[Column[tuple[str, int]]] = (
        Column("state", lambda row: row[0]),
        Column("work orders", lambda row: count(row[1]), number=True),
    )
    print_table(columns, [*rows, ("total", sum(counts.values()))])


def _paint(cell: str) -> str:
    return typer.style(cell, fg=_COLORS[cell]) if cell in _COLORS else cell


def print_fields(named: Sequence[tuple[str, object]]) -> None:
    """Print a name and its value on a line each; empty values are left out."""
    width = max(len(name) for name, _ in named)
    for name, value in named:
        if text := shown(value):
            print(f"{name.ljust(width)}  {safe(text)}")


def shown(value: object) -> str:
    """Return a value as text: nothing for None, and a time to the second in UTC."""
    if isinstance(value, datetime):
        return times.show(value)
    return "" if value is None else str(value)


def print_json(value: Any) -> None:
    """Print a value as JSON; dataclasses, times and UUIDs have their usual forms."""
    print(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_UTC_Z).decode())


def json_object(row: "DataclassInstance", **keys: str) -> dict[str, Any]:
    """Return the fields of a dataclass as the keys of a JSON object; `keys` has those that are named otherwise."""
    return {keys.get(field.name, field.name): getattr(row, field.name) for field in fields(row)}


def note(sentence: str) -> None:
    """Print a sentence to standard error, apart from the output."""
    print(safe(sentence), file=sys.stderr)


def count(number: int | None, *, unknown: str = "?") -> str:
    """Return a number with separators; None is not known."""
    return unknown if number is None else f"{number:,}"
