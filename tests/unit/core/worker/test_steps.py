"""The steps of one run, without what stores them."""

import datetime
from collections.abc import Callable
from threading import Thread
from typing import Any
from uuid import UUID

import pytest

from workorders.core.worker import steps
from workorders.core.worker.context import Context
from workorders.core.worker.exceptions import InvalidValueError, NonRetryableError, StepError
from workorders.core.worker.steps import StepKey, Steps

Kind = Callable[..., Any]


@pytest.fixture(params=["step", "transaction"])
def kind(request: pytest.FixtureRequest) -> Any:
    """Both kinds of steps, by the name of the method of a context."""
    return request.param


def call(context: Context, kind: str, name: str, function: Any, *args: Any) -> Any:
    """Call a method of a context with a function that gets no connection."""
    if kind == "step":
        return context.step(name, function, *args)

    def without_connection(_connection: Any) -> Any:
        return function(*args)

    return context.transaction(name, without_connection)


def test_a_function_of_a_step_gets_its_arguments_and_its_result_is_what_json_makes_of_it(kind: str) -> None:
    def named(*, number: int) -> int:
        return number

    context = Context.for_test()
    assert call(context, kind, "pair", lambda *given: given, 1, datetime.date(2026, 1, 2)) == [1, "2026-01-02"]
    assert context.step("named", named, number=2**70) == 2**70
    assert call(context, kind, "nothing", lambda: None) is None
    assert context.steps == {"pair": [1, "2026-01-02"], "named": 2**70, "nothing": None}


def test_the_function_of_a_transaction_gets_the_connection_first() -> None:
    def both(connection: Any, word: str) -> list[Any]:
        return [connection, word]

    context = Context.for_test(connection="the connection")
    assert context.transaction("both", both, "word") == ["the connection", "word"]


def test_a_step_of_an_earlier_attempt_is_not_called(kind: str) -> None:
    context = Context.for_test(attempt=2, steps={"label": {"number": 7}, "none": None})
    assert call(context, kind, "label", pytest.fail) == {"number": 7}
    assert call(context, kind, "none", pytest.fail) is None


def test_a_result_that_is_changed_changes_no_stored_one() -> None:
    context = Context.for_test()
    context.step("list", list).append(1)
    assert context.steps == {"list": []}


def test_a_step_that_raises_stores_nothing(kind: str) -> None:
    context = Context.for_test()
    with pytest.raises(ZeroDivisionError):
        call(context, kind, "divide", lambda: 1 / 0)
    assert context.steps == {}


def test_a_name_is_used_once_per_attempt(kind: str) -> None:
    context = Context.for_test(steps={"label": 1})
    call(context, kind, "label", list)
    with pytest.raises(StepError, match="another step with that name"):
        call(context, kind, "label", pytest.fail)


@pytest.mark.parametrize("name", ["", "x" * 201, "line\nbreak", "nul\0", "\ud800", 7, None])
def test_a_name_that_no_step_can_have_is_refused(kind: str, name: Any) -> None:
    with pytest.raises(StepError, match="1 to 200 printable characters"):
        call(Context.for_test(), kind, name, pytest.fail)


def test_there_is_a_maximum_of_steps(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "MAX_STEPS", 3)
    context = Context.for_test(steps={"first": 1})
    for name in ("first", "second", "third"):
        call(context, kind, name, int)
    with pytest.raises(StepError, match="at most 3 steps"):
        call(context, kind, "fourth", pytest.fail)


def test_all_results_together_have_a_maximum_size(kind: str) -> None:
    context = Context.for_test(steps={"first": "x" * 600_000})
    call(context, kind, "second", lambda: "x" * 400_000)
    with pytest.raises(StepError, match="'third', more than 1048576"):
        call(context, kind, "third", lambda: "x" * 100_000)
    assert set(context.steps) == {"first", "second"}


def test_a_result_that_json_cannot_hold_is_refused_and_not_retried(kind: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        call(Context.for_test(), kind, "set", lambda: {1, 2})
    assert isinstance(caught.value, NonRetryableError)


@pytest.mark.parametrize("inner", ["step", "transaction"])
def test_no_step_begins_within_a_transaction_which_may_be_repeated(inner: str) -> None:
    context = Context.for_test()
    with pytest.raises(StepError, match="before or after the transaction"):
        context.transaction("outer", lambda _: call(context, inner, "inner", pytest.fail))
    # The transaction has ended.
    assert call(context, inner, "inner", int) == 0


def test_a_step_may_contain_steps(kind: str) -> None:
    context = Context.for_test()
    assert context.step("outer", lambda: call(context, kind, "inner", lambda: 1)) == 1
    assert context.steps == {"outer": 1, "inner": 1}


def test_the_function_of_a_step_publishes_nothing_because_a_later_attempt_would_not(kind: str) -> None:
    context = Context.for_test()
    with pytest.raises(StepError, match="publish after the step"):
        call(context, kind, "publishing", context.publish, "results", 1)
    context.publish("results", 2)
    assert [message.value for message in context.messages] == [b"2"]


def test_threads_may_have_steps_of_their_own() -> None:
    context = Context.for_test()
    threads = [Thread(target=context.step, args=(f"step {number}", int)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(context.steps) == 20


def test_the_id_of_a_step_is_the_same_in_each_attempt_and_another_one_after_a_rerun_from_the_start() -> None:
    ids = {
        Context("run", "order", attempt, None, request=b"{}", steps=Steps("run", "order", None, *earlier)).step_id(
            "pay"
        )
        for attempt, earlier in ((1, ()), (2, (1, [("other", "1")])), (3, (1, [])))
    }
    assert len(ids) == 1
    assert UUID(ids.pop()).version == 5
    different = [
        StepKey("order", 1, "pay"),
        StepKey("order", 2, "pay"),
        StepKey("order", 1, "ship"),
        StepKey("b", 1, "pay"),
    ]
    assert len({key.id for key in different}) == 4
