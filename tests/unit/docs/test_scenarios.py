"""The table of scenarios: its commands are those of the Makefile, and its tests exist and name them."""

import ast
import re

import pytest

from local_stack import __main__ as local_stack
from local_stack.stack import CHECKOUT
from support.documents import rows, text_of

MAKEFILE = (CHECKOUT / "Makefile").read_text(encoding="utf-8")
TABLE = text_of(CHECKOUT / "tests" / "README.md").partition("\n## Scenarios\n")[2].partition("\n## ")[0]
SCENARIOS = [(command.strip("`"), test.strip("`")) for command, _, test in rows(TABLE)]
OPTIONS = dict(re.findall(r"\$\(if \$\(([A-Z]+)\),--([a-z]+)", MAKEFILE.partition("\nup:")[2].partition("\n\n")[0]))
"""The option of the local stack that each variable of `make up` gives."""


@pytest.mark.parametrize("command", [command for command, _ in SCENARIOS])
def test_the_command_of_a_scenario_is_one_that_make_and_the_local_stack_take(command: str) -> None:
    _, target, *variables = command.split()
    assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE)
    for variable in variables:
        name, _, value = variable.partition("=")
        given = [f"--{OPTIONS[name]}", *([] if value == "1" else [value])]
        local_stack.parser().parse_args([target, *given])


def test_every_variable_of_make_up_has_its_scenarios() -> None:
    known = {variable for command, _ in SCENARIOS for variable in command.split()[2:]}
    assert {variable.partition("=")[0] for variable in known} == set(OPTIONS)


@pytest.mark.parametrize(("command", "test"), SCENARIOS)
def test_the_test_of_a_scenario_exists_and_names_its_command(command: str, test: str) -> None:
    named = ast.get_docstring(ast.parse((CHECKOUT / test).read_text(encoding="utf-8"))) or ""
    assert f"`{command}`" in named
