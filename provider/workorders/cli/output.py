"""What the commands print: tables and JSON of any dataclass, and text that came from outside."""

import re
import shlex
import sys
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from itertools import chain
from operator import attrgetter
from typing import Any, Final, TypeVar

import orjson

from workorders import times
from workorders.cli.options import Listing
from workorders.core.states import WorkOrderState
from workorders.text_table import text_table
from workorders.visible_text import hexdump, safe

T = TypeVar("T")
Columns = str | Mapping[str, Callable[[Any], object]]
"""Names of attributes, with spaces between them, or a function per heading; empty for all fields of the dataclass."""

_JSON_FIELDS: Final = {"request", "body", "output", "result"}
"""Fields of work orders, runs, and steps whose text is JSON."""
_CELL_CHARACTERS: Final = 300
_RAW_BYTES_SHOWN: Final = 512
_JSON: Final = (
    orjson.OPT_INDENT_2 | orjson.OPT_UTC_Z | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_SUBCLASS
)
_NUMBER: Final = re.compile(r"[-?]|[\d,.]*")


class JsonText(str):
    """JSON as text, with every digit: a number of jsonb may be wider than any that Python reads from JSON."""

    __slots__ = ()


class Raw(bytes):
    """Bytes that are no text: hexadecimal for people, and base64 in JSON."""

    __slots__ = ()


def show(value: T, *, as_json: bool, shown: Callable[[T], object] = print) -> None:
    """Print a value as JSON, or let `shown` print it for people."""
    (print_json if as_json else shown)(value)


def show_one(thing: Any, *, as_json: bool, columns: Mapping[type, Columns] | None = None, **more: object) -> None:
    """Print the fields of a dataclass, and what else is given."""
    show_fields(_fields(thing) | more, as_json=as_json, columns=columns)


def show_fields(named: Mapping[str, Any], *, as_json: bool, columns: Mapping[type, Columns] | None = None) -> None:
    """Print names and values as JSON, or each in a line, and then what needs a table or a block.

    Args:
        named: the values; dataclasses among them are printed by their fields.
        as_json: prints JSON, whose keys are the names.
        columns: of the tables, by the type of their rows.
    """
    show(named, as_json=as_json, shown=lambda named: _print_fields(named, columns or {}))


def show_rows(kind: type, rows: Sequence[Any], *, as_json: bool, columns: Columns = "") -> None:
    """Print dataclasses of a kind as JSON, or as a table."""
    show(rows, as_json=as_json, shown=lambda rows: print_table(kind, rows, columns))


def show_page(
    kind: type, rows: Sequence[Any], command: str, listing: Listing, *, columns: Columns = "", **filters: object
) -> None:
    """Print a page of a list; if it is full, the last line of the table is the command for the next page.

    Args:
        kind: the dataclass of the rows, which has an `id`.
        rows: of this page.
        command: which prints the list, such as `batches list`.
        listing: the options of the page.
        columns: of the table.
        filters: options of the command; None was not given.
    """
    show_rows(kind, rows, as_json=listing.as_json, columns=columns)
    if len(rows) == listing.limit and not listing.as_json:
        options = {**filters, "limit": listing.limit, "before": rows[-1].id}
        given = [(f"--{name.replace('_', '-')}", str(value)) for name, value in options.items() if value is not None]
        print(f"\nNext page: {shlex.join(['workorders', *command.split(), *chain(*given)])}")


def print_table(kind: type, rows: Sequence[Any], columns: Columns = "") -> None:
    """Print rows under headings.

    A column without a single value is left out; one of numbers is aligned to the right.
    """
    shown = _columns(kind, columns)
    cells = [[_cell(value(row)) for value in shown.values()] for row in rows]
    used = [place for place in range(len(shown)) if not rows or any(line[place] for line in cells)]
    headings = list(shown)
    numbers = {to for to, place in enumerate(used) if all(_NUMBER.fullmatch(line[place]) for line in cells)}
    lines = [[line[place] for place in used] for line in [headings, *cells]]
    print(text_table(lines, right=numbers))


def print_state_counts(counts: Mapping[str, int]) -> None:
    """Print numbers of work orders by state, and their sum."""
    rows = [(state.value, count(counts[state])) for state in WorkOrderState if state in counts]
    print(text_table([("state", "work orders"), *rows, ("total", count(sum(counts.values())))], right={1}))


def print_json(value: Any) -> None:
    """Print a value as JSON; dataclasses, times and UUIDs have their usual forms."""
    print(orjson.dumps(value, default=_json, option=_JSON).decode())


def note(sentence: str) -> None:
    """Print a sentence to standard error, apart from the output."""
    print(safe(sentence), file=sys.stderr)


def show_progress(done: int, total: int) -> None:
    """Write the progress over itself to standard error, for a person who waits."""
    if sys.stderr.isatty():
        print(f"\r{done:,} of {total:,}", end="\n" if done >= total else "", file=sys.stderr, flush=True)


def count(number: int | None, *, unknown: str = "?") -> str:
    """Return a number with separators; None is not known."""
    return unknown if number is None else f"{number:,}"


def _print_fields(named: Mapping[str, Any], columns: Mapping[type, Columns]) -> None:
    lines = {_heading(name): text for name, value in named.items() if not _is_block(value) and (text := _text(value))}
    width = max(map(len, lines), default=0)
    for heading, text in lines.items():
        print(f"{heading.ljust(width)}  {safe(text)}")
    for name, value in named.items():
        if not _is_block(value):
            continue
        print(f"\n{_heading(name)}:")
        if _is_record(value):
            _print_fields(_fields(value), columns)
        elif isinstance(value, Raw):
            print(_dump(value))
        elif isinstance(value, str):
            print(safe(value))
        else:
            print_table(type(value[0]), value, columns.get(type(value[0]), ""))


def _fields(thing: Any) -> dict[str, Any]:
    return {field.name: _typed(field.name, getattr(thing, field.name)) for field in fields(thing)}


def _typed(name: str, value: Any) -> Any:
    if name in _JSON_FIELDS and isinstance(value, str):
        return JsonText(value)
    return Raw(value) if name == "raw" and isinstance(value, bytes) else value


def _is_record(value: object) -> bool:
    """Return whether its fields are printed, because it is a dataclass without `__str__`."""
    return is_dataclass(value) and type(value).__str__ is object.__str__


def _is_block(value: object) -> bool:
    """Return whether a value takes separate lines."""
    if isinstance(value, str):
        return isinstance(value, JsonText) or "\n" in value
    if isinstance(value, list | tuple):
        return any(map(_is_record, value))
    return isinstance(value, Raw) or _is_record(value)


def _columns(kind: type, columns: Columns) -> Mapping[str, Callable[[Any], object]]:
    if isinstance(columns, Mapping):
        return columns
    names = columns.split() or [field.name for field in fields(kind)]
    return {_heading(name): attrgetter(name) for name in names}


def _heading(name: str) -> str:
    return name.removeprefix("shown_").removesuffix("_at").replace("_", " ")


def _cell(value: object) -> str:
    text = safe(_text(value)).replace("\n", " ")
    return text if len(text) <= _CELL_CHARACTERS else f"{text[:_CELL_CHARACTERS]}..."


def _text(value: object) -> str:
    """Return a value as text: nothing for None and False, and a time to the second in UTC."""
    if value is None or isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, datetime):
        return times.show(value)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_text(of)}" for name, of in value.items())
    return ", ".join(map(_text, value)) if isinstance(value, list | tuple) else str(value)


def _dump(raw: Raw) -> str:
    dump = f"{len(raw):,} bytes\n{hexdump(raw, most=_RAW_BYTES_SHOWN)}".rstrip()
    return dump if len(raw) <= _RAW_BYTES_SHOWN else f"{dump}\n(the rest is not shown; --raw FILE writes all)"


def _json(value: Any) -> object:
    """Return what stands for a value that JSON does not know."""
    if isinstance(value, JsonText):
        return orjson.Fragment(str(value))
    if isinstance(value, bytes):
        return b64encode(value).decode() if isinstance(value, Raw) else value.decode(errors="replace")
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "to_json"):
        return value.to_json()
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    return _fields(value)
