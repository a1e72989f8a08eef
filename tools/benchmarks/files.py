"""How many files of the package one message passes: those of which a function is called in any process on its way."""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks.steady import CREATED, INSERTED, waiting_triggers
from benchmarks.trigger_files import ON_SERVER
from local_stack.stack import CHECKOUT

_NOTING: Final = Path(__file__).with_name("noting")
_DAG_FILES: Final = ("triggers.py", "workflows.py")


def passed(say: Callable[[str], None]) -> list[str]:
    """Send one message through Airflow and a Spark Connect server to the end of its function, and return the files.

    From the listener's wait to the committed offsets; without Dags that the message does not need.
    """
    with tempfile.TemporaryDirectory(prefix="files-") as home:
        dags, notes = Path(home, "dags"), Path(home, "notes")
        dags.mkdir()
        for name in _DAG_FILES:
            shutil.copy(CHECKOUT / "dags" / name, dags)
        given = [str(Path(entry).absolute()) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
        environment = {
            "WORKORDERS_NOTED": str(notes),
            "PYTHONPATH": os.pathsep.join([str(_NOTING), *given, str(CHECKOUT / "include")]),
        }
        ways = {"files": ON_SERVER}
        with waiting_triggers(ways, say, executed=True, environment=environment, dags_folder=dags) as triggers:
            wait = triggers.produce(["files"], 1, 1)
            wait(CREATED)
            wait(INSERTED)
            triggers.until_idle()
        noted = notes.read_text(encoding="utf-8").splitlines()
    return sorted({file.rpartition("/workorders/")[2] for file in noted})
