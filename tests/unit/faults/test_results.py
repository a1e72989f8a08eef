"""A broken promise and a fault that was not injected are both seen in the table."""

from dataclasses import replace
from pathlib import Path

import pytest

from faults import results
from faults.oracle import Verdict
from faults.results import Result, markdown, with_earlier, write

WELL = Result("jvm killed", "jvm-killed", 7, 1, 12.34, 200, Verdict(1000, 0, 0, 0, 0, 0))
VERDICT = Verdict(1000, 0, 0, 0, 0, 0)


@pytest.mark.parametrize("count", ["lost", "duplicated", "disordered", "strangers", "wrong"])
def test_any_count_that_is_not_zero_breaks_a_promise(count: str) -> None:
    broken = replace(WELL, verdict=replace(VERDICT, **{count: 1}))  # type: ignore[arg-type]
    assert WELL.kept
    assert not broken.kept
    assert "BROKEN" in markdown([broken])


def test_a_contradiction_breaks_a_promise_and_is_quoted() -> None:
    broken = replace(WELL, verdict=replace(VERDICT, contradictions=("the group is at 6",)))
    assert not broken.kept
    assert "the group is at 6" in markdown([broken])


def test_a_fault_that_was_not_injected_is_no_success() -> None:
    failed = Result("jvm killed", "jvm-killed", 7, failure="AssertionError: no JVM\nand more")
    assert not failed.kept
    assert "FAILED: AssertionError: no JVM |" in markdown([failed])


def test_a_fault_that_is_not_possible_here_gives_the_reason() -> None:
    skipped = Result("out of disk", "disk", 7, skipped="nothing may be mounted")
    assert skipped.kept
    assert "skipped: nothing may be mounted" in markdown([skipped])


def test_a_run_in_pieces_keeps_the_other_faults_of_the_last_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    order = ["disk", "jvm-killed", "another"]
    assert with_earlier([WELL], name="faults", order=order) == [WELL]
    broken = replace(WELL, verdict=replace(VERDICT, contradictions=("the group is at 6",)))
    skipped, gone = Result("disk", "disk", 7, skipped="no"), Result("gone", "gone", 7)
    write([broken, skipped, gone], name="faults", seed=7)
    assert with_earlier([], name="faults", order=order) == [skipped, broken]
    assert with_earlier([WELL], name="faults", order=order) == [skipped, WELL]
