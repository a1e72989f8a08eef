"""The command line with the lowest version of everything that the package names."""

import subprocess
import sys
from pathlib import Path

import pytest

from local_stack import wheel
from local_stack.stack import LocalStack
from support.installed_command import options_here, options_of, run_command

pytestmark = [pytest.mark.integration, pytest.mark.long]

UV = Path(sys.executable).with_name("uv")


@pytest.fixture(scope="module", params=["", "[airflow,kafka,spark]"])
def programs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment in which only what the package does not name is new; without and with its extras."""
    folder = tmp_path_factory.mktemp("lowest")
    built = wheel.build(folder / "source")
    python = folder / "environment" / "bin" / "python"
    install = ("install", "--quiet", "--resolution", "lowest-direct", "--python", python, f"{built}{request.param}")
    commands: list[list[str | Path]] = [
        [UV, "venv", "--quiet", "--python", sys.executable, folder / "environment"],
        [UV, "pip", *install],
    ]
    for command in commands:
        subprocess.run(command, check=True)
    return python.parent


def test_the_commands_and_their_options_are_those_of_the_newest_versions(programs: Path) -> None:
    assert options_of(programs) == options_here()


def test_files_are_written_and_checked_and_a_database_is_read(
    programs: Path, stack: LocalStack, tmp_path: Path
) -> None:
    run_command(programs, "workorders", "init", tmp_path)
    assert "orders is valid" in run_command(programs, "workorders", "triggers", "check", tmp_path / "triggers")
    database = {"WORKORDERS_DATABASE_URL": stack.database_url}
    run_command(programs, "workorders", "db", "migrate", **database)
    run_command(programs, "workorders", "work-orders", "list", "--state", "failed", "--json", **database)
