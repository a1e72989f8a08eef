"""The address of a search means what its fields say."""

from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl
from uuid import UUID

import pytest
from fastapi import HTTPException

from workorders.core.history.filters import Filter
from workorders.pages import search

NOW = datetime(2026, 3, 8, 12, tzinfo=UTC)
ID = "01997a3e-6f4c-7000-8a4f-5d8a1c2b3e4f"


def test_a_search_without_a_time_is_for_the_last_seven_days() -> None:
    assert search.read({}, NOW).filter == Filter(since=NOW - timedelta(days=7))
    assert search.read({"since": "all"}, NOW).filter == Filter()


def test_a_place_in_a_stream_and_an_id_are_searched_at_all_times() -> None:
    assert search.read({"stream": "orders/0@"}, NOW).filter.since is None
    assert search.read({"id": ID}, NOW).filter == Filter(selected=(UUID(ID),))


def test_ticked_work_orders_are_selected_whatever_else_was_searched() -> None:
    found = search.read({"state": "failed"}, NOW)
    assert found.of_selected([UUID(ID)]).filter == Filter(selected=(UUID(ID),))
    assert found.of_selected([]) == found
    assert not search.read({}, NOW).of_selected([UUID(ID)]).is_empty


def test_every_field_selects() -> None:
    given = {
        "state": "failed",
        "trigger": "orders",
        "workflow": "ship",
        "rejection": "not-json",
        "text": "PAT-1",
        "ordering_key": "17",
        "stream": "orders/0@",
        "from_position": "1",
        "to_position": "2",
        "since": "2026-03-01",
        "until": "2026-03-02T14:30 01:00",
    }
    assert search.read(given, NOW).filter == Filter(
        state="failed",
        trigger="orders",
        workflow="ship",
        rejection="not-json",
        text="PAT-1",
        ordering_key="17",
        stream="orders/0@",
        from_position=1,
        to_position=2,
        since=datetime(2026, 3, 1, tzinfo=UTC),
        until=datetime(2026, 3, 2, 13, 30, tzinfo=UTC),
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("state", "broken"),
        ("since", "soon"),
        ("until", "all"),
        ("from_position", "-1"),
        ("to_position", "1.5"),
        ("from_position", "9" * 30),
        ("from_position", "²"),
        ("id", "1"),
        ("text", "a\0b"),
        ("trigger", "x" * 1001),
    ],
)
def test_a_wrong_field_is_named_with_its_right_form(field: str, value: str) -> None:
    with pytest.raises(HTTPException, match=rf"^422: {field}: nothing was searched or changed, because this takes"):
        search.read({field: value}, NOW)


def test_the_address_of_a_search_means_the_same_search() -> None:
    wanted = search.read({"state": "failed", "text": "a & b+c", "since": "2026-03-01T10:00+01:00"}, NOW)
    assert search.read(dict(parse_qsl(wanted.query())), NOW) == wanted


def test_a_fixed_search_means_the_same_later_and_holds_nothing_newer() -> None:
    fixed = search.read({"since": "24h", "state": "failed"}, NOW).fixed(NOW)
    later = search.read(dict(parse_qsl(fixed.query())), NOW + timedelta(days=3))
    assert later.filter == fixed.filter == Filter(state="failed", since=NOW - timedelta(days=1), until=NOW)


def test_a_search_of_all_times_stays_one_when_it_is_fixed() -> None:
    fixed = search.read({"since": "all"}, NOW).fixed(NOW)
    assert search.read(dict(parse_qsl(fixed.query())), NOW).filter == Filter(until=NOW)


def test_a_time_alone_is_no_limit_to_what_a_bulk_action_changes() -> None:
    assert search.read({"since": "1h"}, NOW).is_empty
    assert not search.read({"state": "failed"}, NOW).is_empty
