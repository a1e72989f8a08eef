import json
import re
import subprocess
import sys
from collections.abc import Iterator
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.models import OptionInfo

from local_stack.stack import CHECKOUT
from workorders.cli import confirmation, times
from workorders.cli.commands import PANELS, SUMMARIES
from workorders.cli.main import app

COMMANDS = typer.main.get_command(app)
LOADED = """
import json, sys
from workorders.cli.main import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(json.dumps(sorted(sys.modules)))
"""


def loaded_by(*arguments: str) -> set[str]:
    """Return the modules that a command has imported when it ends."""
    done = subprocess.run([sys.executable, "-c", LOADED, *arguments], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("name", SUMMARIES)
def test_every_command_that_the_help_names_exists_and_has_its_own_help(name: str) -> None:
    command = COMMANDS.commands[name]  # type: ignore[attr-defined]
    assert command.name == name
    assert command.help


def test_a_summary_fits_the_help_in_60_characters() -> None:
    assert [summary for summary in SUMMARIES.values() if len(summary) > 60] == []


def usages(command: Any, context: Any) -> Iterator[str]:
    """Give the usage line of every command."""
    yield command.get_usage(context)
    for name, part in getattr(command, "commands", {}).items():
        yield from usages(part, part.context_class(part, info_name=name, parent=context))


def test_a_usage_line_names_an_argument_without_braces() -> None:
    root: Any = COMMANDS
    lines = list(usages(root, root.context_class(root, info_name="workorders")))
    assert "Usage: workorders resolve skip-lost [OPTIONS] TRIGGER TOPIC" in lines
    assert "Usage: workorders status [OPTIONS] [TRIGGER]" in lines
    assert [line for line in lines if re.search(r"[{}]|\[\[", line)] == []


def test_the_help_groups_the_commands_in_panels(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        app(["--help"])
    assert re.findall(r"^(\w+):$", capsys.readouterr().out, re.MULTILINE) == ["Options", *PANELS]


def test_the_help_imports_no_command() -> None:
    loaded = loaded_by("--help")
    assert not loaded & {
        "workorders.cli.triggers",
        "workorders.cli.status",
        "psycopg",
        "pydantic",
        "sqlalchemy",
        "rich",
    }


def test_a_check_of_trigger_files_does_not_wait_for_the_database_driver() -> None:
    loaded = loaded_by("triggers", "check", str(CHECKOUT / "include" / "triggers"))
    assert "workorders.cli.triggers" in loaded
    assert not loaded & {"psycopg", "sqlalchemy", "rich", "confluent_kafka", "airflow"}


def test_an_unknown_command_is_answered_with_the_nearest_name() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "workorders.cli.main", "batchse"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "Did you mean 'batches'?" in done.stderr


def parameters(command: Any) -> Iterator[tuple[str, Parameter]]:
    """Give the parameters of the function of every command, with the command's name."""
    for name, part in getattr(command, "commands", {"": command}).items():
        if part is not command:
            yield from parameters(part)
        elif part.callback is not None:
            yield from ((part.name or name, parameter) for parameter in signature(part.callback).parameters.values())


def test_every_option_names_itself_because_versions_of_typer_derive_different_names() -> None:
    found = [
        # In an annotation, the first name is in the place of the default.
        (command, parameter.name, (info.default, *(info.param_decls or ())))
        for command, parameter in parameters(COMMANDS)
        for info in getattr(parameter.annotation, "__metadata__", ())
        if isinstance(info, OptionInfo)
    ]
    assert len(found) > 100
    assert [place for *place, names in found if not any(str(name).startswith("--") for name in names)] == []


def groups(command: Any, name: str = "workorders") -> Iterator[tuple[str, Any]]:
    """Give every group of commands by its name."""
    for part, inner in getattr(command, "commands", {}).items():
        if hasattr(inner, "commands"):
            yield f"{name} {part}", inner
            yield from groups(inner, f"{name} {part}")


def options() -> Iterator[tuple[str, OptionInfo]]:
    """Give every option of every command, with its name."""
    for _, parameter in parameters(COMMANDS):
        for info in getattr(parameter.annotation, "__metadata__", ()):
            if isinstance(info, OptionInfo):
                # In an annotation, the first name is in the place of the default.
                names = (str(name) for name in (info.default, *(info.param_decls or ())))
                yield from ((name, info) for name in names if name.startswith("--"))


def test_a_group_called_alone_does_nothing_and_what_lists_is_called_list() -> None:
    found = dict(groups(COMMANDS))
    assert [name for name, group in found.items() if group.invoke_without_command] == []
    listing = {
        f"workorders {name}" for name, summary in SUMMARIES.items() if summary.startswith(("List", "Show, resume"))
    }
    assert listing == {name for name, group in found.items() if "list" in group.commands}


def test_an_option_takes_the_same_in_every_command() -> None:
    taken: dict[str, set[str | None]] = {}
    for name, info in options():
        taken.setdefault(name, set()).add(info.metavar)
    assert {name: forms for name, forms in taken.items() if len(forms) > 1} == {}


def test_a_duration_is_written_in_one_way() -> None:
    assert {(name, info.metavar) for name, info in options() if info.parser is times.seconds} == {
        ("--for", "DURATION"),
        ("--max-age", "DURATION"),
        ("--older-than", "DURATION"),
        ("--wait", "DURATION"),
    }
    assert [name for name, _ in options() if "second" in name or "minute" in name] == []


def test_every_confirmation_asks_the_same_question_and_is_given_by_yes() -> None:
    sources = {path.name: path.read_text(encoding="utf-8") for path in Path(confirmation.__file__).parent.glob("*.py")}
    assert [name for name, text in sources.items() if "typer.confirm" in text] == ["confirmation.py"]
    asking = [name for name, text in sources.items() if "cli.confirmation import" in text]
    assert [name for name in asking if ": Yes = False" not in sources[name]] == []
