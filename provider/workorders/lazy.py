"""Public names of a package that are loaded when they are first used (PEP 562).

Airflow imports every installed provider in each of its processes, so importing a package must load nothing heavy.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package.

    Args:
        package: its `__name__`.
        modules: public names, and the module below the package that defines each: `module`, or `module:name` if the
            name there is another one.
    """

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, _, attribute = modules[name].partition(":")
        return getattr(import_module(f"{package}.{module}"), attribute or name)

    return load, lambda: sorted(modules)
