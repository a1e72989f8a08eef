"""A replay as a user does it: clear a finished task, and check that there are no duplicates."""

import time
from dataclasses import dataclass
from typing import Final

from demo.airflow_api import AirflowApi
from demo.database import Database
from demo.errors import DemoError
from local_stack.waiting import wait_until

TASK: Final = "create_work_orders"
_SECONDS: Final = 300.0
_TABLE_HEADER: Final = "partition "


@dataclass(frozen=True, slots=True)
class Replay:
    """What a replay did."""

    run_id: str
    note: str
    seconds: float
    added: int
    """Work orders; fewer than 0 if some are gone."""
    changed: bool
    """Whether any row of the work orders, or an offset of the ledger, is another than before."""
    table: list[str]
    """The last lines of the task's log, one per partition."""

    @property
    def remark(self) -> str:
        """Return what was replayed."""
        return f"by {self.run_id} again, in {self.seconds:.0f} s"


def replay(api: AirflowApi, database: Database, dag_id: str, run_id: str) -> Replay:
    """Clear the ingest task of a batch that is done, and wait until it is done again.

    Raises:
        DemoError: it took too long.
    """
    _wait_for_success(api, dag_id, run_id)
    tries = api.try_number(dag_id, run_id, TASK)
    before, rows_before = database.progress(), database.fingerprint()
    begin = time.monotonic()
    api.clear(dag_id, run_id, TASK)
    _wait_for_success(api, dag_id, run_id)
    seconds = time.monotonic() - begin
    last_try = api.try_number(dag_id, run_id, TASK)
    if last_try == tries:
        raise DemoError(f"{dag_id} {run_id}: the task {TASK} was cleared and did not run again.")
    return Replay(
        run_id=run_id,
        note=api.run_note(dag_id, run_id),
        seconds=seconds,
        added=database.progress().created - before.created,
        changed=database.fingerprint() != rows_before,
        table=_table(api.log(dag_id, run_id, TASK, last_try)),
    )


def _wait_for_success(api: AirflowApi, dag_id: str, run_id: str) -> None:
    if not wait_until(lambda: api.run_state(dag_id, run_id) == "success", seconds=_SECONDS):
        raise DemoError(
            f"{dag_id} {run_id} has not succeeded within {_SECONDS:g} s; it is {api.run_state(dag_id, run_id)}."
        )


def _table(log: list[str]) -> list[str]:
    start = next((number for number, line in enumerate(log) if line.startswith(_TABLE_HEADER)), len(log))
    return [line for line in log[start:] if not line.startswith("::")]
