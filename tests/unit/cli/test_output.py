import json
import re
from operator import itemgetter

import pytest

from workorders.cli.output import Column, print_table
from workorders.visible_text import hexdump, safe

COLUMNS: list[Column[tuple[str, ...]]] = [
    Column("name", itemgetter(0)),
    Column("count", itemgetter(1), number=True),
    Column("note", itemgetter(2)),
]


def test_numbers_are_aligned_to_the_right_and_no_line_ends_with_spaces(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(COLUMNS, [("a", "1,000", "x"), ("long", "2", "")])
    assert capsys.readouterr().out == "name  count  note\na     1,000  x\nlong      2\n"


def test_a_column_without_a_value_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(COLUMNS, [("a", "1", ""), ("b", "2", "")])
    assert capsys.readouterr().out == "name  count\na         1\nb         2\n"


def test_an_empty_table_has_its_headings(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(COLUMNS, [])
    assert capsys.readouterr().out == "name  count  note\n"


def test_a_terminal_sees_states_in_color_and_the_same_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    rows = [("stalled", "1", "[0, 10)"), ("[bold]", "2", "x" * 300)]
    print_table(COLUMNS, rows)
    out = capsys.readouterr().out
    assert "\x1b[91mstalled\x1b[0m" in out
    monkeypatch.setenv("NO_COLOR", "1")
    print_table(COLUMNS, rows)
    assert capsys.readouterr().out == re.sub(r"\x1b\[\d+m", "", out)


@pytest.mark.parametrize("char", ["\x1b", "\x07", "\r", "\t", "\x7f", "\u009b", "\u202e", "\u200b", "\U000e0041"])
def test_what_a_terminal_obeys_is_escaped_as_in_json(char: str) -> None:
    shown = safe(f"a{char}b")
    assert char not in shown
    assert json.loads(f'"{shown}"') == f"a{char}b"


def test_other_text_stays_as_it_is() -> None:
    assert safe("Zoë\n日本 😀 [x]") == "Zoë\n日本 😀 [x]"


def test_a_hexdump_shows_bytes_and_what_is_printable() -> None:
    assert hexdump(b"ab\0\xff", most=512).split() == ["00000000", "61", "62", "00", "ff", "ab.."]
    assert len(hexdump(bytes(1000), most=32).splitlines()) == 2
    assert hexdump(bytes(33), most=33).splitlines()[2].startswith("00000020  00 ")
