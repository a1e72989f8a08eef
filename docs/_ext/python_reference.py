"""The public names of a module, with their signatures and docstrings, from the source."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from inspect import getsource, isfunction
from textwrap import dedent
from typing import Final

from pydantic import BaseModel

_GIVEN: Final = {"Context"}
"""Classes whose objects a program is given, and does not make."""
_NOT_FOR_PROGRAMS: Final = {
    *("execute", "execute_complete", "get_openlineage_facets_on_complete", "on_kill", "path", "template_fields"),
    *("encoded_messages", "test_connection"),
}
"""Members that Airflow or the package uses, and programs do not."""
_SECTION: Final = re.compile(r"^(Args|Raises|Returns):\n((?: +.*\n|\n)*)", re.MULTILINE)
_ENTRY: Final = re.compile(r"^([\w.*]+): ", re.MULTILINE)
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def python_reference(module: str, *names: str) -> str:
    """Return a section for each public name of a module, or for the ones that are given."""
    public = names or import_module(module).__all__
    return "\n\n".join(part for name in public for part in _parts(module, name))


def _parts(module: str, name: str) -> Iterator[str]:
    found = getattr(import_module(module), name)
    node = ast.parse(dedent(getsource(found))).body[0]
    if isfunction(found) and isinstance(node, _Function):
        yield from _function(f"### `{name}`", name, node)
    elif isinstance(node, ast.ClassDef):
        is_error = issubclass(found, Exception)
        if is_error and module != "workorders.exceptions":
            return  # it has its place among the other errors
        yield f"### `{name}`"
        # The fields of a file have their own pages.
        if not is_error and not issubclass(found, BaseModel):
            yield from _class(name, node)
        else:
            yield _prose(node)


def _class(name: str, node: ast.ClassDef) -> Iterator[str]:
    methods = {part.name: part for part in node.body if isinstance(part, _Function)}
    if name in _GIVEN:
        yield _prose(node).partition("\n\nArgs:")[0]
    else:
        if "__init__" in methods:
            yield _code(name, methods["__init__"])
        yield _prose(node)
    if rows := list(_fields(node)):
        yield "\n".join(["| field | type | meaning |", "| --- | --- | --- |", *rows])
    for method in methods.values():
        if _is_public(method.name) and ast.get_docstring(method):
            yield from _function(f"#### `{name}.{method.name}`", method.name, method)


def _fields(node: ast.ClassDef) -> Iterator[str]:
    for part, after in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name) and _is_public(part.target.id):
            note = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
            type_ = ast.unparse(part.annotation).replace("|", "\\|")
            yield f"| `{part.target.id}` | `{type_}` | {' '.join(str(note).split())} |".replace("  |", " |")


def _is_public(member: str) -> bool:
    return not member.startswith("_") and member not in _NOT_FOR_PROGRAMS


def _function(heading: str, name: str, node: _Function) -> Iterator[str]:
    yield heading
    if not any(ast.unparse(decorator).endswith("property") for decorator in node.decorator_list):
        yield _code(name, node)
    yield _prose(node)


def _code(name: str, node: _Function) -> str:
    arguments = re.sub(r"^self(, )?", "", ast.unparse(node.args))
    returns = f" -> {ast.unparse(node.returns)}" if node.returns and node.name != "__init__" else ""
    return f"```python\n{name}({arguments}){returns}\n```"


def _prose(node: _Function | ast.ClassDef) -> str:
    """Return a docstring in Markdown; its sections become lists."""
    text = (ast.get_docstring(node) or "") + "\n"
    return re.sub(r"\n{3,}", "\n\n", _SECTION.sub(lambda section: _list(section[1], dedent(section[2])), text)).strip()


def _list(title: str, text: str) -> str:
    if title == "Returns":
        return f"Returns: {' '.join(text.split())}\n\n"
    entries = re.sub(r"\n +", " ", text.strip())
    return f"{title}:\n\n{_ENTRY.sub(lambda entry: f'- `{entry[1]}`: ', entries)}\n\n"
