"""What is kept of a run's log."""

import os

import pytest

from support.claimed_runs import run_of
from workorders.core.worker.captured_text import GAP, MAX_LOG_BYTES, bound_log, create_log, take_log
from workorders.core.worker.ipc import Frame
from workorders.core.worker.run_results import LEFT_OUT, NO_SECRETS, Mask, ResultMaker

SECRET = "pässwörd-€uro"


def log_of(written: str, *, traceback: str = "", limit: int = 100, mask: Mask = NO_SECRETS) -> tuple[str, bool]:
    run = run_of({})
    frame = Frame([str(run.run_id), "failed", ["Error", "", traceback], [0.0, 1.0], True, written])
    result = ResultMaker(limit, mask).returned(run, frame, "")
    return result.log, result.log_truncated


def test_a_traceback_is_behind_what_was_written() -> None:
    assert log_of("written", traceback="trace\n") == ("written\ntrace\n", False)


@pytest.mark.parametrize("limit", [0, 1, 60, 99])
def test_a_log_is_never_longer_than_its_limit(limit: int) -> None:
    log, is_cut = log_of("ä" * 500, traceback="trace", limit=limit)
    assert len(log.encode()) <= limit
    assert is_cut


def test_a_log_that_was_read_in_two_parts_shows_what_is_missing() -> None:
    assert log_of(f"begin{GAP}end") == (f"begin{LEFT_OUT}end", True)


@pytest.mark.parametrize("shown", range(len(SECRET.encode())))
def test_a_log_that_was_emptied_at_any_byte_shows_no_part_of_a_secret(shown: int) -> None:
    descriptor = create_log()
    os.truncate(descriptor, MAX_LOG_BYTES + 1)
    os.write(descriptor, SECRET.encode()[:shown])
    assert bound_log(descriptor)
    os.write(descriptor, SECRET.encode()[shown:] + b"z" * 50)
    log, is_cut = log_of(GAP + take_log(descriptor, os.fstat(descriptor).st_size, 1_000), mask=Mask([SECRET]))
    os.close(descriptor)
    assert is_cut
    assert set(log.replace(LEFT_OUT, "").replace("*", "")) == {"z"}


@pytest.mark.parametrize("shown", range(len(SECRET.encode())))
def test_a_log_that_is_read_in_two_parts_shows_no_part_of_a_secret_next_to_the_gap(shown: int) -> None:
    secret = SECRET.encode()
    descriptor = create_log()
    os.write(descriptor, b"x" * (500 - shown) + secret + b"y" * 1_000 + secret + b"z" * (500 - shown))
    log, is_cut = log_of(take_log(descriptor, os.fstat(descriptor).st_size, 1_000), limit=2_000, mask=Mask([SECRET]))
    os.close(descriptor)
    assert is_cut
    assert set(log.replace(LEFT_OUT, "").replace("***", "")) <= {"x", "y", "z"}
