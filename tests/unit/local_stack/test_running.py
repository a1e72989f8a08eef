import os
import stat
from pathlib import Path

import psutil
import pytest

from local_stack import running


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return running.environment_file(tmp_path)


def write(file: Path) -> None:
    variables = {"WORKORDERS_KAFKA": '{"bootstrap.servers": "here"}', "QUOTED": "it's $HOME", "TMPDIR": "/gone"}
    running.write(file, variables, pids=(os.getpid(),), url="http://here")


def test_a_running_stack_is_found_by_its_file(file: Path) -> None:
    write(file)
    stack = running.find(file)
    assert stack is not None
    assert stack.url == "http://here"
    assert [process.pid for process in stack.alive()] == [os.getpid()]


def test_another_process_with_the_same_id_is_not_the_stack(file: Path) -> None:
    write(file)
    created = psutil.Process().create_time()
    file.write_text(file.read_text().replace(str(created), str(created - 1)))
    assert running.find(file) is None


def test_the_file_gives_back_every_variable_as_it_was(file: Path) -> None:
    write(file)
    variables = running.read_variables(file.read_text())
    assert variables["WORKORDERS_KAFKA"] == '{"bootstrap.servers": "here"}'
    assert variables["QUOTED"] == "it's $HOME"


def test_only_its_owner_may_read_the_file_with_the_passwords(file: Path) -> None:
    write(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
