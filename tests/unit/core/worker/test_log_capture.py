"""What is kept of a run's log."""

import os

import pytest

from workorders.core.worker.captured_text import Captured
from workorders.core.worker.log_capture import LEFT_OUT, MAX_BYTES, bound, compose_log, create, masked, take
from workorders.core.worker.secret_masking import NO_SECRETS, Mask

SECRET = "correct-horse"


def test_a_traceback_is_behind_what_was_written() -> None:
    assert compose_log(Captured("written"), "trace\n", limit=100, mask=NO_SECRETS) == (
        "written\ntrace\n",
        False,
    )


@pytest.mark.parametrize("limit", [0, 1, 60, 99])
def test_a_log_is_never_longer_than_its_limit(limit: int) -> None:
    log, cut = compose_log(Captured("ä" * 500), "trace", limit=limit, mask=NO_SECRETS)
    assert len(log.encode()) <= limit
    assert cut


def test_a_log_that_was_read_in_two_parts_shows_what_is_missing() -> None:
    log, cut = compose_log(Captured("begin", "end"), "", limit=100, mask=NO_SECRETS)
    assert (log, cut) == (f"begin{LEFT_OUT}end", True)


@pytest.mark.parametrize("shown", range(len(SECRET) + 1))
def test_no_half_of_a_secret_is_next_to_the_gap(shown: int) -> None:
    mask = Mask([SECRET])
    captured = Captured("x" * 50 + SECRET[:shown], SECRET[shown:] + "y" * 50)
    log, _ = compose_log(captured, "", limit=200, mask=mask)
    assert set(log.replace(LEFT_OUT, "").replace("***", "")) <= {"x", "y"}


@pytest.mark.parametrize("shown", range(len("pässwörd-€uro".encode())))
def test_a_log_that_was_emptied_at_any_byte_shows_no_part_of_a_secret(shown: int) -> None:
    secret = "pässwörd-€uro"
    descriptor = create()
    os.truncate(descriptor, MAX_BYTES + 1)
    os.write(descriptor, secret.encode()[:shown])
    assert bound(descriptor)
    os.write(descriptor, secret.encode()[shown:] + b"z" * 50)
    log, is_cut = masked(take(descriptor, 1_000, was_emptied=True), Mask([secret]))
    os.close(descriptor)
    assert is_cut
    assert set(log.replace(LEFT_OUT, "").replace("*", "")) == {"z"}


@pytest.mark.parametrize("shown", range(len("pässwörd-€uro".encode())))
def test_a_log_that_is_read_in_two_parts_shows_no_part_of_a_secret_next_to_the_gap(shown: int) -> None:
    secret = "pässwörd-€uro".encode()
    descriptor = create()
    os.write(descriptor, b"x" * (500 - shown) + secret + b"y" * 1_000 + secret + b"z" * (500 - shown))
    log, is_cut = masked(take(descriptor, 1_000), Mask([secret.decode()]))
    os.close(descriptor)
    assert is_cut
    assert set(log.replace(LEFT_OUT, "").replace("***", "")) <= {"x", "y", "z"}
