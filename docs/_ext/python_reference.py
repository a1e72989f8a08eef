"""The public names of a module, with their signatures and docstrings."""

from importlib import import_module
from inspect import isclass, isfunction
from typing import Any, Final, Literal

from pydantic import BaseModel
from sphinx.ext.napoleon.docstring import GoogleDocstring

_What = Literal["class", "exception", "function", "method", "attribute", "data", "property"]
_MADE_BY_US: Final = {"workorders.Context"}
"""Classes whose objects a program is given, and does not make."""


def python_reference(module: str, *names: str) -> str:
    """Return what Sphinx's autodoc has to describe: all public names of a module, or the ones that are given."""
    public = names or [name for name in import_module(module).__all__ if not name.startswith("__")]
    return "\n".join(["```{eval-rst}", *(_directive(module, name) for name in public), "```"])


def _directive(module: str, name: str) -> str:
    found, path = getattr(import_module(module), name), f"{module}.{name}"
    if not isclass(found):
        return f".. auto{'function' if isfunction(found) else 'data'}:: {path}\n"
    if issubclass(found, Exception):
        # An error of several modules has its place among the others.
        return f".. autoexception:: {path}()\n" if module == "workorders.exceptions" else ""
    if issubclass(found, BaseModel):
        # The fields have pages of their own.
        return f".. autoclass:: {path}()\n"
    return f".. autoclass:: {path}{'()' if path in _MADE_BY_US else ''}\n   :members:\n   :show-inheritance:\n"


def format_docstring(_app: Any, what: _What, _name: str, _obj: object, _options: object, lines: list[str]) -> None:
    """Let Sphinx understand `Args:`, `Returns:` and `Raises:` in a docstring; a colon elsewhere is a colon."""
    if what not in {"attribute", "data", "property"}:
        lines[:] = GoogleDocstring(lines, what=what).lines()


def name_as_documented(_app: Any, _env: Any, node: Any, _child: Any) -> None:
    """Look names of Airflow up where Airflow documents them, and not in the modules that define them."""
    target = str(node.get("reftarget", ""))
    if target.startswith("airflow.sdk."):
        node["reftarget"] = f"airflow.sdk.{target.rpartition('.')[2]}"
