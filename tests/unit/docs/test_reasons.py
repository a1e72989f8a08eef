"""Holds the table of reasons to the code: each that a work order can be rejected for, and no other."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

from local_stack.stack import CHECKOUT
from support.documents import section

PROVIDER = CHECKOUT / "provider"
CODE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)+")
CODE_IS_ARGUMENT = {"Rejection": 0, "AdmissionRejection": 1, "RefusedPayloadError": 1}


def reasons(file: Path) -> Iterator[str]:
    """Give the codes that a module rejects work orders with."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for call in ast.walk(tree):
        if isinstance(call, ast.FunctionDef) and any(argument.arg == "code" for argument in call.args.args):
            yield from chosen_from(call.args)
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in CODE_IS_ARGUMENT):
            continue
        match call.args[CODE_IS_ARGUMENT[call.func.id] :]:
            case [ast.Constant(value=str(code)), *_]:
                yield code
            case [ast.Name(id=name), *_]:
                module = importlib.import_module(".".join(file.relative_to(PROVIDER).with_suffix("").parts))
                constant = getattr(module, name, None)
                yield from chosen_from(tree) if constant is None else [constant]


def chosen_from(tree: ast.AST) -> Iterator[str]:
    """Give what looks like a code in a module that chooses one among several."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value):
            yield node.value


def test_the_table_of_reasons_names_exactly_those_of_the_code() -> None:
    named = re.findall(r"^\| `(.*?)` \|", section("Reasons"), re.MULTILINE)
    found = {code for file in PROVIDER.rglob("*.py") for code in reasons(file)}
    assert sorted(named) == sorted(found)
