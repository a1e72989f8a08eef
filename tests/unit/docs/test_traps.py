"""The table of traps: every trap has its line, and every test that is named is there."""

import re

import pytest

from local_stack.stack import CHECKOUT
from support.documents import page

TRAPS = 54
DOCUMENT = page("explanation/failure-modes")
LINES = {int(line[2:].split(".")[0]): line for line in DOCUMENT.splitlines() if re.match(r"\| \d+\. ", line)}
NAMED = re.findall(r"`([\w/]+\.py)::(\w+)`", DOCUMENT)
OUTBOX = range(40, 51)


def test_every_trap_has_one_line_in_its_order() -> None:
    numbers = [int(number) for number in re.findall(r"^\| (\d+)\. ", DOCUMENT, re.MULTILINE)]
    assert numbers == list(range(1, TRAPS + 1))


@pytest.mark.parametrize("number", [number for number in LINES if number not in OUTBOX])
def test_every_trap_names_a_test_but_those_of_the_outbox(number: int) -> None:
    assert "::test_" in LINES[number]


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_every_named_test_stands_in_its_file(file: str, name: str) -> None:
    source = (CHECKOUT / "tests" / file).read_text(encoding="utf-8")
    assert re.search(rf"^def {name}\(", source, re.MULTILINE)
