"""What the package's own source contains: names, texts and imports, without prose."""

import ast
import re
from collections.abc import Iterator

from local_stack.stack import CHECKOUT

PACKAGE = CHECKOUT / "provider" / "workorders"


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Give every module by its path in the package."""
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def queries() -> Iterator[tuple[str, str]]:
    """Give every file of SQL by its path in the package, without comments."""
    for path in sorted(PACKAGE.rglob("*.sql")):
        yield path.relative_to(PACKAGE).as_posix(), re.sub(r"--.*", "", path.read_text(encoding="utf-8"))


def texts(module: ast.Module) -> Iterator[str]:
    """Give every text of a module that is no docstring."""
    prose = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Expr)}
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.value


def imports(module: ast.Module) -> Iterator[str]:
    """Give every module that a module imports, anywhere in it."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def names(module: ast.Module) -> Iterator[str]:
    """Give every name that a module uses or makes."""
    for node in ast.walk(module):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.alias(name=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.keyword(arg=str(name)):
                yield name
