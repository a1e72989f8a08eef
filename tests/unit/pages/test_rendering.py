"""Numbers, times, and text from outside, as the pages write them."""

from datetime import UTC, datetime, timedelta

import pytest

from workorders.kafka.partitions import PartitionState
from workorders.pages.rendering import NOTHING, Place, age, duration, first_line, moment, number, tone, visible, waited

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0 ms"),
        (0.0123, "12 ms"),
        (1.26, "1.3 s"),
        (10, "10 s"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (3600, "1 h"),
        (3 * 3600 + 12 * 60 + 5, "3 h 12 min"),
        (86_400 * 40 + 3600, "40 d 1 h"),
        (None, NOTHING),
        (timedelta(minutes=2), "2 min"),
    ],
)
def test_a_duration_has_its_two_largest_units(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_an_age_has_its_exact_time_as_title() -> None:
    assert str(age(NOW - timedelta(minutes=5), NOW)) == (
        '<time datetime="2026-03-01T11:55:00+00:00" title="2026-03-01 11:55:00 UTC">5 min ago</time>'
    )
    assert ">in 5 min<" in str(age(NOW + timedelta(minutes=5), NOW))
    assert str(age(None, NOW)) == str(moment(None)) == NOTHING


def test_what_is_not_known_is_a_question_mark_and_not_zero() -> None:
    assert (number(None), number(0), number(1234567)) == ("?", "0", "1,234,567")
    assert (number(50_001, 50_000), number(12, 50_000)) == ("50,000+", "12")


def test_text_from_outside_cannot_hide_or_turn_around_what_is_next_to_it() -> None:
    assert visible("abc\u202edef\0") == "abc\\u202edef\\u0000"
    assert first_line("a\nb\tc") == "a b\\u0009c"
    assert first_line("x" * 200) == "x" * 159 + "…"


def test_the_partitions_that_need_attention_are_bad() -> None:
    assert {state for state in PartitionState if tone(state) == "bad"} == {
        state for state in PartitionState if state.needs_attention
    }


def test_every_state_has_a_tone() -> None:
    assert [tone(state) for state in ("stalled", "behind", "in batch 7", "success", "never seen")] == [
        "bad",
        "warn",
        "busy",
        "good",
        "idle",
    ]


def test_a_part_of_a_path_cannot_leave_its_place() -> None:
    place = Place("/airflow/workorders", "/airflow")
    assert place.page("kafka", "../a b?c#d") == "/airflow/workorders/kafka/..%2Fa%20b%3Fc%23d"
    run = "/airflow/dags/a%2Fb/runs/manual__2026%2B01"
    assert place.dag_run("a/b", "manual__2026+01") == run
    assert place.task("a/b", "manual__2026+01", "c/d") == f"{run}/tasks/c%2Fd"


@pytest.mark.parametrize(
    ("seconds", "lag", "text"),
    [
        (None, 7, "?"),
        (0.0, 0, NOTHING),
        (0.0, None, NOTHING),
        (0.0, 7, "under 2 min"),
        (125.0, None, "2 min 5 s"),
    ],
)
def test_an_age_that_is_not_known_is_a_question_mark_and_one_of_nothing_is_a_dash(
    seconds: float | None, lag: int | None, text: str
) -> None:
    assert waited(seconds, lag) == text
