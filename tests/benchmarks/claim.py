"""Claiming and finishing runs in groups, with many finished and many waiting ones in the tables."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from benchmarks import create_for as creating
from benchmarks import messages
from workorders.core import claiming, runs, triggers, workflows
from workorders.core.database import Connection, connect
from workorders.core.work_orders import create_for
from workorders.core.workflows import Workflow

RUNS_PER_SECOND: Final = 5_000
"""What a workflow without concurrency and lanes must sustain on one connection, for execution not to wait for it."""
GROUP: Final = 100
"""Runs of one group."""
WAYS: Final[dict[str, dict[str, object]]] = {
    "neither concurrency nor lanes": {},
    "a concurrency": {"concurrency": 100_000},
    "a lane a message key": {"lane": "key"},
}
_TOPIC: Final = "observations"
_STREAM: Final = f"{_TOPIC}/0@benchmark"

_FILL = """
    WITH made AS (
        SELECT ('00000000-0000-7000-8000-' || lpad(to_hex(number), 12, '0'))::uuid AS id, number
        FROM generate_series(1, %(rows)s) AS number
    ), work_orders AS (
        INSERT INTO workorders.work_orders (id, position, trigger_id, workflow_id, stream_id, state)
        SELECT id, number, %(trigger_id)s, %(workflow_id)s, -1, 'success' FROM made
    )
    INSERT INTO workorders.runs
        (id, work_order_id, workflow_id, attempt, state, group_id, claimed_at, started_at, heartbeat_at, finished_at)
    SELECT id, id, %(workflow_id)s, 1, 'success', id, now(), now(), now(), now() FROM made
"""


@dataclass(frozen=True, slots=True)
class Worked:
    """What working through some groups took."""

    claim_seconds: tuple[float, ...]
    """Of each claim, its commit included."""
    runs_per_second: float
    """Claimed, started and finished, commits included."""

    @property
    def slow_claim_seconds(self) -> float:
        """The 95th percentile of the claims."""
        return sorted(self.claim_seconds)[int(0.95 * len(self.claim_seconds))]


def prepare(url: str, name: str, fields: dict[str, object], *, finished: int, waiting: int) -> Workflow:
    """Fill the tables, anew, with finished runs of a workflow and work orders that wait for their first one."""
    with connect(url) as connection:
        creating.empty_tables(connection)
        connection.execute("TRUNCATE workorders.runs, workorders.run_outputs, workorders.run_logs")
        definition = workflows.parse({"name": name, "callable": "some:where", **fields}, where=name)
        workflow = workflows.register(connection, definition)
        trigger = triggers.register(connection, name=name, type_="kafka", workflow=name, definition={})
        given = {"rows": finished, "trigger_id": trigger.id, "workflow_id": workflow.id}
        connection.execute("SET LOCAL statement_timeout = 0")
        connection.execute(_FILL, given)
        create_for(connection, trigger, messages.items(_TOPIC, 0, waiting, _STREAM), fresh=True)
    with connect(url, autocommit=True) as connection:
        for table in ("work_orders", "dataclips", "runs"):
            connection.execute(f"VACUUM (ANALYZE) workorders.{table}")
    return workflow


def work_through(url: str, workflow: Workflow, groups: int, connections: int) -> Worked:
    """Claim, start and finish some groups on as many connections at once."""

    def work(_number: int) -> list[float]:
        with connect(url) as connection:
            return [_work(connection, workflow) for _ in range(groups // connections)]

    begun = time.monotonic()
    with ThreadPoolExecutor(connections) as pool:
        claims = [seconds for each in pool.map(work, range(connections)) for seconds in each]
    return Worked(tuple(claims), len(claims) * GROUP / (time.monotonic() - begun))


def _work(connection: Connection, workflow: Workflow) -> float:
    group_id = uuid4()
    begun = time.monotonic()
    claimed = claiming.claim(connection, workflow, limit=GROUP, group_id=group_id)
    connection.commit()
    seconds = time.monotonic() - begun
    if len(claimed) != GROUP:
        raise RuntimeError(f"{len(claimed)} runs were claimed where {GROUP} were asked for.")
    runs.start(connection, group_id, [run.run_id for run in claimed])
    connection.commit()
    finished = runs.finish(connection, group_id, _results(claimed))
    connection.commit()
    if len(finished.run_ids) != GROUP:
        raise RuntimeError(f"{len(finished.run_ids)} runs were finished where {GROUP} were claimed.")
    return seconds


def _results(claimed: Sequence[claiming.ClaimedRun]) -> list[runs.RunResult]:
    return [runs.RunResult(run_id=run.run_id, state="success", output=b'{"seen": true}') for run in claimed]
