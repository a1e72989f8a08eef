"""What the commands print: tables, JSON, and text that came from outside."""

import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import orjson
import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON with stable keys.")]

_UNSAFE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories that a terminal obeys, or that hide or turn around the text next to them."""
_WIDEST: Final = 10_000
_BMP_END: Final = 0x10000
_STYLES: Final = {
    "stalled": "bold red",
    "rejected": "red",
    "failed": "red",
    "behind": "yellow",
    "not planned yet": "yellow",
    "waiting for an open transaction": "yellow",
    "not in Kafka": "bold red",
    "topic re-created": "bold red",
    "unread messages deleted": "bold red",
    "log truncated": "bold red",
    "up to date": "green",
    "success": "green",
    "finished": "green",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    heading: str
    number: bool = False
    """Whether its values are aligned to the right."""


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under headings: with colours to a person, as plain text to a file or a pipe.

    A column without a single value is left out.
    """
    used = [place for place in range(len(columns)) if not rows or any(row[place] for row in rows)]
    columns = [columns[place] for place in used]
    safe_rows = [[safe(row[place]).replace("\n", " ") for place in used] for row in rows]
    if sys.stdout.isatty():
        _print_rich(columns, safe_rows)
    else:
        print(plain(columns, safe_rows))


def plain(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    """Return an aligned table without lines, which `grep` and `awk` like."""
    lines = [[column.heading for column in columns], *rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column.number else cell.ljust(width)
            for cell, column, width in zip(line, columns, widths, strict=True)
        ).rstrip()
        for line in lines
    )


def _print_rich(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    # Not above: output into a file or a pipe does not wait for it.
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column.heading, justify="right" if column.number else "left", no_wrap=True)
    for row in rows:
        # Text, not str: brackets in a str would be read as markup.
        table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    console = Console()
    # A line that is too long is left to the terminal: an id that is folded into its cell cannot be copied.
    wide = console.measure(table, options=console.options.update(max_width=_WIDEST)).maximum
    Console(width=max(console.width, wide)).print(table)


def print_fields(fields: Sequence[tuple[str, str]]) -> None:
    """Print a name and its value on a line each; empty values are left out."""
    width = max(len(name) for name, _ in fields)
    for name, value in fields:
        if value:
            print(f"{name.ljust(width)}  {safe(value)}")


def print_json(value: Any) -> None:
    """Print a value as JSON; dataclasses, times and UUIDs have their usual forms."""
    print(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_UTC_Z).decode())


def note(sentence: str) -> None:
    """Print a sentence to standard error, apart from the output."""
    print(safe(sentence), file=sys.stderr)


def safe(text: str) -> str:
    r"""Return text with everything that a terminal would obey as `\u....`, apart from line ends.

    Anybody may have written a message. Inside JSON this is another spelling of the same string.
    """
    return "".join(_escape(char) if char != "\n" and unicodedata.category(char) in _UNSAFE else char for char in text)


def _escape(char: str) -> str:
    code = ord(char)
    if code < _BMP_END:
        return f"\\u{code:04x}"
    high, low = divmod(code - _BMP_END, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


def count(number: int | None, *, unknown: str = "?") -> str:
    """Return a number with separators; None is not known."""
    return unknown if number is None else f"{number:,}"


def hexdump(data: bytes, *, most: int) -> str:
    """Return the beginning of raw bytes: place, hexadecimal, and what is printable ASCII."""
    width = 16
    lines = []
    for place in range(0, min(len(data), most), width):
        part = data[place : min(place + width, most)]
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in part)  # noqa: PLR2004 - printable ASCII
        lines.append(f"{place:08x}  {part.hex(' '):<{3 * width}} {text}")
    return "\n".join(lines)
