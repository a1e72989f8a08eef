"""Finds a workflow's function by its name."""

import importlib
import inspect
from collections.abc import Callable
from typing import Any

from workorders.core.worker.exceptions import CallableUnavailableError

WorkflowFunction = Callable[[Any, Any], Any]
"""Takes the input and the context, and returns the output."""


def load(name: str) -> WorkflowFunction:
    """Import the function `package.module:function`.

    Raises:
        CallableUnavailableError: there is no such module or function, importing it failed, or it cannot be called with
            an input and a context. A slip of a deployment is found before the first run, and costs none.
    """
    module, _, attribute = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    # An import runs other people's code, which may raise whatever it likes; `sys.exit` at its end among it.
    except (Exception, SystemExit) as error:
        raise CallableUnavailableError(f"{name} cannot be imported: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise CallableUnavailableError(f"{name} is {type(found).__name__} and no function.")
    if not _takes_two(found):
        raise CallableUnavailableError(f"{name} cannot be called with an input and a context.")
    function: WorkflowFunction = found
    return function


def _takes_two(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # some of what is written in C says nothing of itself
        return True
    return True
