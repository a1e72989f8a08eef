"""Executes the work orders that the demo has created: a workflow file is put into its folder, and its DAG works."""

import shutil
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import UUID

from demo.errors import DemoError
from demo.executed import Executed
from demo.summary import Figure, table
from local_stack.stack import say
from workorders.core import workflows
from workorders.core.database import connect
from workorders.core.reruns import rerun

_PATIENCE_SECONDS: Final = 300.0
_LOOK_EVERY_SECONDS: Final = 1.0
_SAY_EVERY_SECONDS: Final = 5.0
WHY: Final = "shown in the demo"


@dataclass(frozen=True, slots=True)
class Execution:
    """The last part of the demo.

    Args:
        workflow_file: of the workflow whose work orders are executed.
        folder: where Airflow looks for workflow files; empty until now.
        database_url: the work orders' database.
        airflow_url: where to look meanwhile.
    """

    workflow_file: Path
    folder: Path
    database_url: str
    airflow_url: str

    def prepare(self) -> None:
        """Register the workflow: from then on a work order is told its lane when it is created."""
        with connect(self.database_url, application_name="demo") as connection:
            workflows.register(connection, workflows.load(self.workflow_file))

    def run(self) -> bool:
        """Execute all work orders, rerun one, and say whether every figure is right.

        Raises:
            DemoError: nothing was finished for some minutes.
        """
        executed = Executed(self.database_url)
        waiting = executed.unfinished()
        definition = workflows.load(self.workflow_file)
        say(f"\nNow {self.workflow_file.name} is put into the folder of workflows, so that Airflow executes the")
        say(f"{waiting:,} work orders by {definition.callable}: {self.airflow_url}/dags/{definition.name}_runs\n")
        begun = time.monotonic()
        shutil.copy(self.workflow_file, self.folder)
        self._wait(executed)
        seconds = time.monotonic() - begun
        again = self._rerun(executed)
        states = executed.states()
        lines = [
            Figure(
                "executed", states["success"], waiting, f"in {seconds:.0f} s, until Airflow had read the file included"
            ),
            Figure("failed", states.total() - states["success"] - states["rejected"], 0),
            Figure("runs", executed.runs(), waiting + 1, "one each, and the rerun"),
            Figure("runs of the rerun", len(executed.attempts(again)), 2, "the first, and the second by the demo"),
            Figure("out of order", executed.out_of_order(), 0, "runs of a patient that began before an older one's"),
        ]
        say(f"\n{table(lines)}\n")
        say(_states(states))
        say("\n".join(f"    {line}" for line in executed.log_lines()))
        return not any(line.off for line in lines)

    def _rerun(self, executed: Executed) -> UUID:
        id_ = executed.newest()
        with connect(self.database_url, application_name="demo") as connection:
            rerun(connection, [id_], who="demo", why=WHY)
        say(f"One is asked for again: {id_}")
        self._wait(executed)
        return id_

    @staticmethod
    def _wait(executed: Executed) -> None:
        last, changed_at, said_at = executed.unfinished(), time.monotonic(), time.monotonic()
        while (unfinished := executed.unfinished()) > 0:
            now = time.monotonic()
            if unfinished != last:
                last, changed_at = unfinished, now
            elif now - changed_at > _PATIENCE_SECONDS:
                raise DemoError(f"For {_PATIENCE_SECONDS:g} s no run has ended; {unfinished:,} work orders wait.")
            if now - said_at >= _SAY_EVERY_SECONDS:
                said_at = now
                say(f"    {unfinished:,} work orders left")
            time.sleep(_LOOK_EVERY_SECONDS)


def _states(states: Counter[str]) -> str:
    return "states: " + ", ".join(f"{count:,} {state}" for state, count in sorted(states.items()))
