"""Programs of Debian that a test needs."""

import pytest

from local_stack.debian import find_program
from local_stack.errors import StackError


def require_debian(program: str) -> None:
    """Skip the test where a program is neither installed nor can be; its package has the same name."""
    try:
        find_program(program, program)
    except StackError as error:
        pytest.skip(str(error))
