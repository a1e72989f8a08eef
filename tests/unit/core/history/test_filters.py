from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest
from pydantic import ValidationError

from workorders.core.history.filters import Filter


def test_a_filter_comes_back_from_json_as_it_was() -> None:
    wanted = Filter(
        trigger="orders",
        state="failed",
        since=datetime(2026, 3, 1, 14, 30, tzinfo=UTC),
        from_position=0,
        selected=(uuid4(), uuid4()),
        text="anaph*",
    )
    assert Filter.from_json(wanted.to_json()) == wanted


def test_a_filter_is_shown_in_the_order_of_its_fields() -> None:
    assert str(Filter(text="ada", trigger="orders")) == "trigger orders, text ada"
    assert str(Filter()) == "all"
    assert str(Filter(selected=(UUID(int=1), UUID(int=2)))) == f"selected {UUID(int=1)} {UUID(int=2)}"


def test_a_stored_filter_with_an_unknown_condition_is_refused_and_does_not_select_all() -> None:
    with pytest.raises(ValidationError, match="reason"):
        Filter.from_json({"reason": "not-json"})
