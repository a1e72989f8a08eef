import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from workorders.cli.options import Listing
from workorders.cli.output import JsonText, Raw, print_table, show_one, show_page, show_rows
from workorders.core.history.filters import Filter
from workorders.visible_text import hexdump, safe


@dataclass(frozen=True)
class Row:
    """A row of a table."""

    name: str
    count: str
    note: str = ""


@dataclass(frozen=True)
class Thing:
    """What a command shows."""

    id: int
    made_at: datetime
    is_new: bool
    filter: Filter
    counts: Mapping[str, int]
    key: bytes
    text: str
    body: JsonText
    raw: Raw
    rows: Sequence[Row]


THING = Thing(
    id=7,
    made_at=datetime(2026, 3, 1, tzinfo=UTC),
    is_new=True,
    filter=Filter(trigger="orders"),
    counts={"erased": 2},
    key=b"k\xff",
    text="two\nlines",
    body=JsonText('{"n": 0.10000000000000000000001}'),
    raw=Raw(b"\0"),
    rows=[Row("a", "1")],
)


def test_numbers_are_aligned_to_the_right_and_no_line_ends_with_spaces(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(Row, [Row("a", "1,000", "x"), Row("long", "2")])
    assert capsys.readouterr().out == "name  count  note\na     1,000  x\nlong      2\n"


def test_a_column_without_a_value_is_left_out_and_an_empty_table_has_its_headings(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_table(Row, [Row("a", "1"), Row("b", "2")])
    assert capsys.readouterr().out == "name  count\na         1\nb         2\n"
    print_table(Row, [])
    assert capsys.readouterr().out == "name  count  note\n"


def test_chosen_columns_are_attributes_or_functions(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows(Row, [Row("a", "1", "x")], as_json=False, columns="note name")
    assert capsys.readouterr().out == "note  name\nx     a\n"
    show_rows(Row, [Row("a", "1", "x")], as_json=False, columns={"double": lambda row: row.name * 2})
    assert capsys.readouterr().out == "double\naa\n"


def test_only_a_full_page_of_a_table_ends_with_the_command_for_the_next_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_page(Thing, [THING], "things list", Listing(limit=1), columns="id", of_kind="a b", state=None)
    assert (
        capsys.readouterr().out == "id\n 7\n\nNext page: workorders things list --of-kind 'a b' --limit 1 --before 7\n"
    )
    show_page(Thing, [THING], "things list", Listing(limit=2), columns="id")
    assert "Next page" not in capsys.readouterr().out
    show_page(Thing, [THING], "things list", Listing(limit=1, as_json=True))
    assert json.loads(capsys.readouterr().out)[0]["id"] == 7


def test_one_thing_is_a_line_per_field_and_then_a_block_for_each_that_needs_more(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_one(THING, as_json=False, columns={Row: "count name"}, empty=[], other=THING.rows[0])
    assert capsys.readouterr().out == (
        "id      7\nmade    2026-03-01T00:00:00Z\nis new  yes\nfilter  trigger orders\ncounts  erased 2\nkey     k�\n"
        "\ntext:\ntwo\nlines\n"
        '\nbody:\n{"n": 0.10000000000000000000001}\n'
        "\nraw:\n1 bytes\n00000000  00                                               .\n"
        "\nrows:\ncount  name\n    1  a\n"
        "\nother:\nname   a\ncount  1\n"
    )


def test_json_has_the_fields_and_every_digit(capsys: pytest.CaptureFixture[str]) -> None:
    show_one(THING, as_json=True, more=1)
    printed = capsys.readouterr().out
    assert '"body": {"n": 0.10000000000000000000001}' in printed
    assert {name: value for name, value in json.loads(printed).items() if name != "body"} == {
        "id": 7,
        "made_at": "2026-03-01T00:00:00Z",
        "is_new": True,
        "filter": {"trigger": "orders"},
        "counts": {"erased": 2},
        "key": "k�",
        "text": "two\nlines",
        "raw": "AA==",
        "rows": [{"name": "a", "count": "1", "note": ""}],
        "more": 1,
    }


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
