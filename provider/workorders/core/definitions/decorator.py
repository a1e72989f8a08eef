"""The decorator that makes a function a workflow, and the workflows that a module declares with it."""

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, ParamSpec, TypeVar, overload

from workorders.core.definitions.validation import validate
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.exceptions import ConfigurationError

_MARK: Final = "__workorders_workflow__"

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


@overload
def workflow(function: Callable[Arguments, Result], /) -> Callable[Arguments, Result]: ...


@overload
def workflow(**fields: Any) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]: ...


def workflow(function: Any = None, /, **fields: Any) -> Any:
    """Declare the decorated function as a workflow; its fields are those of a workflow file, without `callable`.

    Without fields, the parentheses may be left out. The name is the function's own unless another is given. The
    function stays what it is, and can be called.

    Raises:
        ConfigurationError: a field is wrong, or what is decorated is no function at the top of a module. The text has
            the line of the function.
    """

    def mark(function: Any) -> Any:
        if not inspect.isroutine(function):
            raise ConfigurationError(
                f"@workflow decorates a function and takes its fields by name, such as @workflow(name=...); got "
                f"{function!r}."
            )
        place = f"{function.__module__}:{function.__qualname__}"
        line = getattr(getattr(inspect.unwrap(function), "__code__", None), "co_firstlineno", None)
        where = place if line is None else f"{place}, line {line}"
        if "." in function.__qualname__:
            raise ConfigurationError(f"{where}: a workflow is a function at the top of a module, and this one is not.")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise ConfigurationError(f"{where}: a workflow is a function that returns, and this one yields.")
        given = {"name": function.__name__, **fields, "callable": place}
        setattr(function, _MARK, validate(given, WorkflowDefinition, where=where))
        return function

    return mark if function is None else mark(function)


def declared_workflows(module: str) -> list[WorkflowDefinition]:
    """Return the definitions of the functions that a module decorates, in their order there."""
    try:
        imported = import_module(module)
    except ConfigurationError:
        raise
    except Exception as error:  # any error while a module is imported is a mistake in the configuration
        raise ConfigurationError(f"{module}: this module of workflows cannot be imported: {error!r}.") from error
    functions = (value for value in vars(imported).values() if getattr(value, "__module__", None) == module)
    return [getattr(function, _MARK) for function in functions if hasattr(function, _MARK)]
