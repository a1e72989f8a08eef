"""Executes the work orders that the demo has created: a workflow file is put into its folder, and its Dag works."""

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import UUID

from clinic.events import ALARMS
from demo.errors import DemoError
from demo.executed import Executed
from demo.summary import Figure, table
from demo.topic import Topic
from local_stack.stack import say
from workorders.core import workflows
from workorders.core.attribution import Attribution
from workorders.core.bulk.runner import rerun_work_orders
from workorders.core.definitions.loading import load_workflow
from workorders.core.postgres.connection import connect

_PATIENCE_SECONDS: Final = 300.0
_LOOK_EVERY_SECONDS: Final = 1.0
_REPORT_EVERY_SECONDS: Final = 5.0
WHY: Final = "shown in the demo"


@dataclass(frozen=True, slots=True)
class Execution:
    """The last part of the demo.

    Args:
        workflow_file: of the workflow whose work orders are executed.
        folder: where Airflow looks for workflow files; empty until now.
        database_url: the work orders' database.
        alarms: the topic that runs answer to.
        airflow_url: where to look meanwhile.
    """

    workflow_file: Path
    folder: Path
    database_url: str
    alarms: Topic
    airflow_url: str

    def prepare(self) -> None:
        """Register the workflow: from then on a work order gets its ordering key when it is created.

        Raises:
            KafkaException: the broker refuses the topic of answers.
        """
        self.alarms.create(1)
        with connect(self.database_url, application_name="demo") as connection:
            workflows.register(connection, load_workflow(self.workflow_file))

    def run(self) -> bool:
        """Execute all work orders, rerun one, and return whether every figure is right.

        Raises:
            DemoError: nothing was finished for some minutes.
        """
        executed = Executed(self.database_url)
        waiting = executed.unfinished()
        definition = load_workflow(self.workflow_file)
        say(f"\nNow {self.workflow_file.name} is put into the folder of workflows, so that Airflow executes the")
        say(f"{waiting:,} work orders by {definition.callable}: {self.airflow_url}/dags/{definition.name}_runs\n")
        begun = time.monotonic()
        shutil.copy(self.workflow_file, self.folder)
        self._wait(executed.unfinished, "work orders")
        seconds = time.monotonic() - begun
        again = self._rerun(executed)
        self._wait(executed.unsent, "messages in the outbox")
        found, answered = executed.alarms(), self._answers()
        states = executed.states()
        lines = [
            Figure(
                "executed", states["success"], waiting, f"in {seconds:.0f} s, until Airflow had read the file included"
            ),
            Figure("failed", states.total() - states["success"] - states["rejected"], 0),
            Figure("runs", executed.runs(), waiting + 1, "one each, and the rerun"),
            Figure("runs of the rerun", len(executed.attempts(again)), 2, "the first, and the second by the demo"),
            Figure("out of order", executed.out_of_order(), 0, "runs of a patient that began before an older one's"),
            Figure(
                "answers", answered.total(), found.total(), f"to {ALARMS} by way of the outbox, one an alarming value"
            ),
            Figure("answers missing", (found - answered).total(), 0),
            Figure("answers doubled", (answered - found).total(), 0),
        ]
        say(f"\n{table(lines)}\n")
        say(_states(states))
        say("\n".join(f"    {line}" for line in executed.log_lines()))
        return not any(line.off for line in lines)

    def _rerun(self, executed: Executed) -> UUID:
        id_ = executed.newest()
        with connect(self.database_url, application_name="demo") as connection:
            rerun_work_orders(connection, [id_], Attribution("demo", WHY))
        say(f"One is rerun: {id_}")
        self._wait(executed.unfinished, "work orders")
        return id_

    def _answers(self) -> Counter[str]:
        """Return how often the topic of answers names each event, as a reader of committed messages sees it."""
        return Counter(
            json.loads(message.value or b"{}")["id"] for message in self.alarms.read("read_committed").values()
        )

    @staticmethod
    def _wait(left: Callable[[], int], what: str) -> None:
        last, changed_at, reported_at = left(), time.monotonic(), time.monotonic()
        while (now_left := left()) > 0:
            now = time.monotonic()
            if now_left != last:
                last, changed_at = now_left, now
            elif now - changed_at > _PATIENCE_SECONDS:
                raise DemoError(f"For {_PATIENCE_SECONDS:g} s there was no progress; {now_left:,} {what} wait.")
            if now - reported_at >= _REPORT_EVERY_SECONDS:
                reported_at = now
                say(f"    {now_left:,} {what} left")
            time.sleep(_LOOK_EVERY_SECONDS)


def _states(states: Counter[str]) -> str:
    return "states: " + ", ".join(f"{count:,} {state}" for state, count in sorted(states.items()))
