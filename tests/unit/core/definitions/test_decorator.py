import json
from collections.abc import Iterator

import pytest

from workorders.core.definitions.decorator import declared_workflows, workflow
from workorders.core.exceptions import ConfigurationError


def test_decorated_functions_are_workflows_of_the_module_that_defines_them() -> None:
    first, second = declared_workflows("support.decorated_workflows")
    assert (first.name, first.callable) == ("first_steps", "support.decorated_workflows:first_steps")
    assert (str(first.ordering_key), first.retries.max_retries) == ("key", 2)
    assert (second.name, second.concurrency) == ("second", 1)


def test_a_decorated_function_can_be_called_as_before() -> None:
    from support.decorated_workflows import first_steps

    assert first_steps({"a": 1}, None) == {"seen": {"a": 1}}


def test_a_wrong_field_of_a_decorator_names_the_function() -> None:
    with pytest.raises(ConfigurationError, match=r"^json:dumps, line \d+: concurrency: expected"):
        workflow(concurrency=0)(json.dumps)


def test_only_functions_at_the_top_of_a_module_are_workflows() -> None:
    with pytest.raises(ConfigurationError, match="at the top of a module"):

        @workflow(name="step")
        def step(_event: object, _context: object) -> None: ...


def test_a_mistake_in_a_module_is_told_with_the_function_and_its_line() -> None:
    with pytest.raises(ConfigurationError) as caught:
        declared_workflows("support.decorated_wrongly")
    assert str(caught.value).startswith("support.decorated_wrongly:wrong, line 8: concurency: there is no such field;")


@pytest.mark.parametrize("given", ["second", {"name": "second"}, 3])
def test_what_is_no_function_is_not_decorated(given: object) -> None:
    with pytest.raises(ConfigurationError, match="takes its fields by name"):
        workflow(given)  # type: ignore[call-overload]


def test_a_function_that_yields_is_no_workflow() -> None:
    with pytest.raises(ConfigurationError, match="this one yields"):
        workflow(yielding)


def yielding(_event: object, _context: object) -> Iterator[int]:
    yield 1
