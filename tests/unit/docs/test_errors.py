"""Holds the page on errors to the code: every code has its section, and every message that it shows is in the code."""

import re

import pytest

from local_stack.stack import CHECKOUT
from support.documents import first_cells, page, section

SOURCE = "".join(path.read_text(encoding="utf-8") for path in (CHECKOUT / "provider").rglob("*.py"))
# A message may be spread over lines of the source, with the ends of texts between its words.
JOINED_SOURCE = re.sub(r'"\s*\n\s*f?"', "", SOURCE)
PAGE = page("reference/errors")
EXPLAINED = re.findall(r"^## (WO-\S+)$", PAGE, re.MULTILINE)


def test_every_code_has_its_section_and_every_section_its_code() -> None:
    assert set(EXPLAINED) == set(re.findall(r"\bWO-[A-Z]+(?:-[A-Z]+)*\b", SOURCE))
    assert sorted(set(EXPLAINED)) == EXPLAINED


@pytest.mark.parametrize("code", EXPLAINED)
def test_a_section_contains_the_cause_what_to_do_and_the_symptom(code: str) -> None:
    facts = re.findall(r"^- (\w[\w ]*): .", section(code, on="reference/errors"), re.MULTILINE)
    assert [fact for fact in facts if fact != "Recovers"] == ["Cause", "To do", "Symptom"]


def test_every_message_on_the_page_is_in_the_source() -> None:
    cells = first_cells(section("Messages without a code"))
    messages = [message for cell in cells for message in re.findall(r"`([^`]+)`", cell)]
    parts = [part.strip(" ,;") for message in messages for part in message.split("...")]
    assert [part for part in parts if part not in JOINED_SOURCE] == []
