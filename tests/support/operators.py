"""The operators, sensors and triggers of the package: found by looking, so that none can be forgotten."""

import inspect
import pkgutil
from importlib import import_module
from typing import Any

import workorders


def subclasses(base: type[Any]) -> set[type[Any]]:
    """Return the classes of the package, in whatever module, that derive from `base` and can be made."""
    for module in pkgutil.walk_packages(workorders.__path__, "workorders."):
        # What runs when it is imported: a program's entry, and alembic's scripts.
        if not module.name.endswith("__main__") and ".migrations." not in module.name:
            import_module(module.name)
    found: set[type[Any]] = set()
    waiting = [base]
    while waiting:
        children = waiting.pop().__subclasses__()
        waiting += children
        found |= {
            child
            for child in children
            if child.__module__.split(".")[0] == "workorders" and not inspect.isabstract(child)
        }
    return found
