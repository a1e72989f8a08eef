"""Notes each file of the package of which a function is called; each Python of the benchmark `files` loads it."""

import os
import sys
import threading
from types import FrameType
from typing import Any

_PACKAGE = f"{os.sep}workorders{os.sep}"
_ELSEWHERE = {"api-server", "dag-processor", "db", "serve"}
"""Arguments of the programs through which no message passes."""
_CO_OPTIMIZED = 1
"""Of the code of a function; that of a module or a class does not have it."""
_noted: set[str] = set()


def _note(frame: FrameType, event: str, _: Any) -> None:
    file = frame.f_code.co_filename
    if event != "call" or file in _noted or _PACKAGE not in file or not frame.f_code.co_flags & _CO_OPTIMIZED:
        return
    caller = frame.f_back
    while caller is not None:
        is_module = caller.f_code.co_name == "<module>" and caller.f_globals["__name__"] != "__main__"
        if is_module and _PACKAGE in caller.f_code.co_filename:
            return  # the package is being imported
        caller = caller.f_back
    _noted.add(file)
    with open(os.environ["WORKORDERS_NOTED"], "a", encoding="utf-8") as notes:  # noqa: PTH123 - pathlib may be half imported
        notes.write(f"{file}\n")


if not _ELSEWHERE & set(sys.orig_argv):
    threading.setprofile(_note)
    sys.setprofile(_note)
