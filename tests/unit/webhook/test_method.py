from workorders.webhook.authentication import ApiKey
from workorders.webhook.method import Secret, is_near


def test_a_secret_is_not_printed() -> None:
    assert "hunter2" not in repr(Secret("hunter2", "hunter2"))


def test_the_current_secret_is_tried_first_and_one_that_is_named_twice_once() -> None:
    fields = {"type": "api_key", "connection": "new"}
    found = [
        ApiKey.model_validate({**fields, **more}).connections
        for more in ({}, {"previous_connection": "old"}, {"previous_connection": "new"})
    ]
    assert found == [("new",), ("new", "old"), ("new",)]


def test_a_time_is_near_on_both_sides_and_what_is_no_number_is_not() -> None:
    assert [is_near(text, 1000, 5) for text in ("995", "1005", "994.9", "1006", "nan", "inf", "soon", "")] == [
        True,
        True,
        *[False] * 6,
    ]
