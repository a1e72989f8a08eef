"""The failure modes and their evidence: every number is on both pages, under the same name, and has a test."""

import re

import pytest

from support.documents import page, section

MODES = 54
LINE = re.compile(r"^\| (\d+)\. (.*?) \| (.*) \|$", re.MULTILINE)
EXPLAINED = LINE.findall(page("explanation/failure-modes"))
EVIDENCE = LINE.findall(section("Failure modes", on="project/*"))


def test_every_failure_mode_has_one_line_in_its_order() -> None:
    assert [int(number) for number, _, _ in EXPLAINED] == list(range(1, MODES + 1))


def test_the_evidence_has_the_same_failure_modes() -> None:
    assert [line[:2] for line in EVIDENCE] == [line[:2] for line in EXPLAINED]


@pytest.mark.parametrize(("number", "tests"), [(number, tests) for number, _, tests in EVIDENCE])
def test_every_failure_mode_names_a_test(number: str, tests: str) -> None:
    assert "`test_" in tests, number
