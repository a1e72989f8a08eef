"""The decorator that makes a function a workflow, and the workflows that a module declares with it."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, ParamSpec, TypeVar

from workorders.core.definitions.validation import validate
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.exceptions import ConfigurationError

_MARK: Final = "__workorders_workflow__"

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def workflow(**fields: Any) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Declare the decorated function as a workflow; its fields are those of a workflow file, without `callable`.

    The name is the function's own unless another is given. The function stays what it is, and can be called.

    Raises:
        ConfigurationError: a field is wrong, or the function is not at the top of a module.
    """

    def mark(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        place = f"{function.__module__}:{function.__qualname__}"
        if "." in function.__qualname__:
            raise ConfigurationError(f"{place}: a workflow is a function at the top of a module, and this one is not.")
        given = {"name": function.__name__, **fields, "callable": place}
        setattr(function, _MARK, validate(given, WorkflowDefinition, where=place))
        return function

    return mark


def declared_workflows(module: str) -> list[WorkflowDefinition]:
    """Return the definitions of the functions that a module decorates, in their order there.

    Raises:
        ConfigurationError: the module cannot be imported.
    """
    try:
        imported = import_module(module)
    except Exception as error:  # any error while a module is imported is a mistake in the configuration
        raise ConfigurationError(f"{module}: this module of workflows cannot be imported: {error!r}.") from error
    functions = (value for value in vars(imported).values() if getattr(value, "__module__", None) == module)
    return [getattr(function, _MARK) for function in functions if hasattr(function, _MARK)]
