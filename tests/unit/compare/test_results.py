"""A cell of the table contains what is wrong, who could see it, and both runs if they differ."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from compare import page, results
from compare.oracle import Verdict
from compare.peers.dbos import DBOS_STEP
from compare.results import Result
from compare.speed import Speed

CLEAN = Verdict(messages=600, lost=0, failed=0, doubled=0, overtaken=0, strays=0, bad=24, bad_kept=24)
SPEED = Speed(
    "dbos-step", per_second=199.6, cpu_ms=5.25, median_seconds=1.16, p95_seconds=1.7, memory_mib=60.2, parts=12
)
RESULT = Result("dbos-step", "none", CLEAN, logged=True)


@pytest.mark.parametrize(
    ("wrong", "cell"),
    [
        ({}, "0"),
        ({"lost": 20}, "**20 lost**"),
        ({"failed": 3}, "3 failed, kept"),
        ({"doubled": 5}, "**5 doubled**"),
        ({"strays": 2}, "**2 aborted**"),
        ({"overtaken": 7}, "overtaken"),
        ({"overtaken": 7, "lost": 20}, "**20 lost**"),
        ({"bad_kept": 20}, "4 of 24 bad gone"),
    ],
)
def test_a_cell_contains_what_is_wrong(wrong: dict[str, int], cell: str) -> None:
    assert replace(RESULT, verdict=replace(CLEAN, **wrong)).cell == cell


def test_a_loss_without_an_error_in_the_log_is_silent() -> None:
    lost = replace(RESULT, verdict=replace(CLEAN, lost=20))
    assert replace(lost, logged=False).cell == "**20 lost**, silently"
    stopped = replace(lost, logged=False, halted="a task failed")
    assert stopped.cell == "stopped"
    assert replace(stopped, verdict=replace(CLEAN, lost=20, bad_kept=20)).cell == "stopped"


def test_a_tool_that_continues_without_messages_that_are_gone_has_to_tell_an_operator() -> None:
    gone = replace(RESULT, fault="retention")
    assert gone.cell == "0"
    assert replace(gone, logged=False).cell == "0, silently"
    assert replace(RESULT, logged=False).cell == "0"


@pytest.mark.parametrize("wrong", [{"lost": 1}, {"bad_kept": 23}])
def test_what_is_lost_is_measured_twice(wrong: dict[str, int]) -> None:
    lost = replace(RESULT, verdict=replace(CLEAN, **wrong))
    assert lost.is_doubted
    assert not replace(lost, halted="a task failed").is_doubted


@pytest.mark.parametrize("wrong", [{"overtaken": 1}, {"doubled": 1}, {"failed": 3}])
def test_what_is_there_in_another_order_or_number_or_place_is_measured_once(wrong: dict[str, int]) -> None:
    assert not replace(RESULT, verdict=replace(CLEAN, **wrong)).is_doubted


def test_a_cell_contains_what_an_operator_had_to_do() -> None:
    assert replace(RESULT, remedies=("a restart", "a restart")).cell == "0, after a restart"


def test_two_runs_that_differ_are_both_shown() -> None:
    lost = replace(RESULT, verdict=replace(CLEAN, lost=20))
    assert replace(lost, second="**20 lost**").shown == "**20 lost**"
    assert replace(lost, second="0").shown == "**20 lost** / 0"


def test_what_was_not_measured_is_not_claimed() -> None:
    assert replace(RESULT, verdict=None, skipped="no group").cell == "does not apply"
    table = page.table([RESULT], {"dbos-step": "DBOS", "debezium": "Debezium"})
    assert table.splitlines() == ["| fault | DBOS | Debezium |", "| --- | --- | --- |", "| none | 0 | not measured |"]


def test_a_later_run_reads_what_an_earlier_one_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "FILE", tmp_path / "comparison.json")
    written = replace(RESULT, remedies=("a restart",), second="0")
    results.write([written], [SPEED], {"seed": 1})
    assert json.loads(results.FILE.read_text())["seed"] == 1
    assert results.read() == ({("none", "dbos-step"): written}, {"dbos-step": SPEED})


def test_a_run_replaces_the_measured_part_of_the_page_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "PAGE", tmp_path / "comparison.md")
    page.PAGE.write_text("before\n<!-- measured: faults -->\nold\n<!-- end -->\nafter\n")
    page.write([RESULT], [SPEED], {"dbos-step": DBOS_STEP}, {"conditions": "2 cores"})
    text = page.PAGE.read_text()
    assert text.startswith("before\n<!-- measured: faults -->\n\n## Under the same faults\n")
    assert text.endswith("\n<!-- end -->\nafter\n")
    assert "old" not in text
    assert "624 messages" in text
    assert text.count("## ") == 1
    assert "| DBOS, step | 200 | 5.2 | 1.2 | 1.7 | 60 | 12 |" in text


def test_the_first_run_appends_its_part_to_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "PAGE", tmp_path / "comparison.md")
    page.PAGE.write_text("before\n")
    for _ in range(2):
        page.write([RESULT], [], {"dbos-step": DBOS_STEP}, {"conditions": "2 cores"})
    text = page.PAGE.read_text()
    assert text.startswith("before\n\n<!-- measured: faults -->\n")
    assert text.count("## Under the same faults") == 1
    assert "rows/s" not in text
