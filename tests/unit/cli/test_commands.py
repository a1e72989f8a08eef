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
from workorders.cli import options
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


def commands(command: Any, name: str = "workorders") -> Iterator[tuple[str, Any]]:
    """Give every command that is no group, by its name."""
    for part, inner in getattr(command, "commands", {}).items():
        if hasattr(inner, "commands"):
            yield from commands(inner, f"{name} {part}")
        else:
            yield f"{name} {part}", inner


def long_names(info: Any) -> list[str]:
    """Return the long names of an option; an argument has none."""
    # In an annotation, the first name is in the place of the default.
    return [str(name) for name in (info.default, *(info.param_decls or ())) if str(name).startswith("--")]


ALL = dict(commands(COMMANDS))
PARAMETERS: list[tuple[str, Parameter, Any]] = [
    (name, parameter, info)
    for name, command in ALL.items()
    for parameter in signature(command.callback).parameters.values()
    for info in getattr(parameter.annotation, "__metadata__", ())
]
OPTIONS = [found for found in PARAMETERS if isinstance(found[2], OptionInfo)]
ANSWERS = ("list", "show", "count", "status", "doctor", "start")
"""Commands that list or show something, by their last word."""
SAFE = {"workorders create"}
"""Commands with a reason that nothing has to confirm: they only add."""


def options_of(command: Any) -> set[str]:
    """Return the long names of a command's options."""
    return {name for parameter in command.params for name in parameter.opts if name.startswith("--")}


@pytest.mark.parametrize("name", SUMMARIES)
def test_every_command_that_the_help_names_exists_and_has_its_own_help(name: str) -> None:
    command = COMMANDS.commands[name]  # type: ignore[attr-defined]
    assert command.name == name
    assert command.help


def test_every_command_loads_where_only_the_command_line_is_installed() -> None:
    extras = ("airflow", "anyio", "confluent_kafka", "fastapi", "pyspark", "starlette", "uvicorn")
    program = f"""
import sys
sys.modules.update(dict.fromkeys({extras}))
import typer
from workorders.cli.commands import SUMMARIES
from workorders.cli.main import app
commands = typer.main.get_command(app).commands
print(len([commands[name] for name in SUMMARIES]))
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr) == (f"{len(SUMMARIES)}\n", "")


@pytest.mark.parametrize("name", ALL)
def test_every_help_has_an_example_on_a_line_of_its_own(name: str) -> None:
    assert re.search(rf"^  .*\b{name}\b", ALL[name].help, re.MULTILINE)


@pytest.mark.parametrize("name", ALL)
def test_a_command_has_the_options_that_all_commands_of_its_kind_have(name: str) -> None:
    given = options_of(ALL[name])
    if "--reason" in given:
        assert {"--actor", "--database"} <= given
        assert ("--yes" in given) is (name not in SAFE)
    if {"--before", "--limit"} & given:
        assert name.rsplit(maxsplit=1)[-1] == "list"
    assert ("--json" in given) or name.rsplit(maxsplit=1)[-1] not in ANSWERS
    assert "--dry-run" not in given or {"--json", "--yes", "--reason"} <= given


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
        "workorders.cli.definitions",
        "workorders.cli.status",
        "psycopg",
        "pydantic",
        "sqlalchemy",
        "rich",
    }


def test_a_check_of_trigger_files_does_not_wait_for_the_database_driver() -> None:
    loaded = loaded_by("triggers", "check", str(CHECKOUT / "include" / "triggers"))
    assert "workorders.cli.definitions" in loaded
    assert not loaded & {"psycopg", "sqlalchemy", "rich", "confluent_kafka", "airflow"}


def test_an_unknown_command_is_answered_with_the_nearest_name() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "workorders.cli.main", "batchse"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "Did you mean 'batches'?" in done.stderr


def test_every_option_names_itself_because_versions_of_typer_derive_different_names() -> None:
    assert len(OPTIONS) > 100
    assert [(command, parameter.name) for command, parameter, info in OPTIONS if not long_names(info)] == []


def test_a_group_called_alone_does_nothing_and_what_lists_is_called_list() -> None:
    groups = {name: group for name in SUMMARIES if hasattr(group := COMMANDS.commands[name], "commands")}  # type: ignore[attr-defined]
    assert [name for name, group in groups.items() if group.invoke_without_command] == []
    listing = {name for name, summary in SUMMARIES.items() if summary.startswith("List")}
    assert listing == {name for name, group in groups.items() if "list" in group.commands}


def test_an_option_takes_the_same_in_every_command() -> None:
    taken: dict[str, set[str | None]] = {}
    for *_, info in OPTIONS:
        for name in long_names(info):
            taken.setdefault(name, set()).add(info.metavar)
    assert {name: forms for name, forms in taken.items() if len(forms) > 1} == {}


def test_a_duration_is_written_in_one_way() -> None:
    durations = {(*long_names(info), info.metavar) for *_, info in OPTIONS if info.parser is options.parse_seconds}
    assert durations == {("--wait", "DURATION")}
    names = [name for *_, info in OPTIONS for name in long_names(info)]
    # A bound of the load, which is asked for by this name.
    assert [name for name in names if "second" in name or "minute" in name] == ["--max-seconds"]


def test_a_path_is_named_by_what_it_is() -> None:
    """`FILE` is one, `FOLDER` is one, and `PATH` is either; a file that a command reads is `--file`."""
    paths = [found for found in PARAMETERS if re.search("Path|FileBinaryRead", str(found[1].annotation.__origin__))]
    assert len(paths) > 5
    assert {info.metavar for *_, info in paths} <= {"FILE", "FOLDER", "PATH", "PATH..."}
    assert [command for command, _, info in paths if "--file" in long_names(info)] == ["workorders create"]


def test_every_confirmation_asks_the_same_question() -> None:
    sources = {path.name: path.read_text(encoding="utf-8") for path in Path(options.__file__).parent.glob("*.py")}
    assert [name for name, text in sources.items() if "typer.confirm" in text] == ["options.py"]
