"""The Python modules in a folder of definitions."""

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_DECORATES: Final = re.compile(rb"^@(workorders\.)?workflow\b", re.MULTILINE)


def folder_modules(folder: Path, others: Iterable[str] = ()) -> list[str]:
    """Make the modules of a folder importable, and return those whose decorated functions are workflows.

    These are the Python files of the folder with a line that begins with `@workflow`, and the other modules given. The
    files are not imported.
    """
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    found = {path.stem for path in folder.glob("*.py") if path.is_file() and _DECORATES.search(path.read_bytes())}
    return sorted({*found, *others})
