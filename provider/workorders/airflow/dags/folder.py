"""The Python modules in a folder of definitions."""

import re
import sys
from pathlib import Path
from typing import Final

from workorders.core.environment import workflow_modules

_DECORATES: Final = re.compile(rb"^@(workorders\.)?workflow\b", re.MULTILINE)


def folder_modules(folder: Path) -> list[str]:
    """Make the modules of a folder importable, and return those whose decorated functions are workflows.

    These are the Python files of the folder with a line that begins with `@workflow`, and the modules that the
    environment names. The files are not imported.
    """
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    found = {path.stem for path in folder.glob("*.py") if path.is_file() and _DECORATES.search(path.read_bytes())}
    return sorted({*found, *workflow_modules()})
