"""Claiming and finishing runs in groups, with many finished and many waiting ones in the tables."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from benchmarks import many, messages
from workorders.core import triggers, workflows
from workorders.core.creation.work_orders import create_for
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.postgres.connection import Connection, connect
from workorders.core.runs import claiming, lifecycle
from workorders.core.workers import add_worker
from workorders.core.workflows import Workflow

RUNS_PER_SECOND: Final = 5_000
"""What a workflow without concurrency and ordering key must sustain on one connection, so that runs never wait."""
GROUP: Final = 100
"""Runs of one group."""
WAYS: Final[dict[str, dict[str, object]]] = {
    "neither concurrency nor ordering key": {},
    "a concurrency": {"concurrency": 100_000},
    "an ordering key per message key": {"ordering_key": "key"},
}
_TOPIC: Final = "observations"
_NO_LONGER_WAITING: Final = """
WITH gone AS (
    DELETE FROM workorders.work_orders
    WHERE state = 'pending' AND trigger_id IN (SELECT id FROM workorders.triggers WHERE starts_with(name, 'claim-'))
    RETURNING id
)
DELETE FROM workorders.dataclips USING gone WHERE dataclips.id = gone.id
"""


@dataclass(frozen=True, slots=True)
class Worked:
    """What processing the runs took."""

    claim_seconds: tuple[float, ...]
    """Of each claim, its commit included."""
    runs_per_second: float
    """Claimed, started and finished, commits included."""

    @property
    def slow_claim_seconds(self) -> float:
        """The 95th percentile of the claims."""
        return sorted(self.claim_seconds)[int(0.95 * len(self.claim_seconds))]


def prepare(url: str, number: int, fields: dict[str, object], waiting: int) -> Workflow:
    """Let `waiting` work orders wait for their first run, of the workflow whose finished runs `many` has made."""
    with connect(url) as connection:
        connection.execute(_NO_LONGER_WAITING)
        definition = WorkflowDefinition.model_validate({"name": many.COMMON, "callable": "some:where", **fields})
        workflow = workflows.register(connection, definition)
        name = f"claim-{number}"
        trigger = triggers.register(connection, name=name, type_="kafka", workflow=many.COMMON, definition={})
        create_for(connection, trigger, messages.items(_TOPIC, 0, waiting, f"{name}/0@benchmark"), fresh=True)
    with connect(url, autocommit=True) as connection:
        connection.execute("SET statement_timeout = 0")
        for table in ("work_orders", "dataclips", "runs"):
            connection.execute(f"VACUUM (ANALYZE) workorders.{table}")
    return workflow


def process(url: str, workflow: Workflow, groups: int, connections: int) -> Worked:
    """Claim, start and finish some groups on as many connections at once."""

    def work(_number: int) -> list[float]:
        with connect(url) as connection:
            return [_work(connection, workflow) for _ in range(groups // connections)]

    begun = time.monotonic()
    with ThreadPoolExecutor(connections) as pool:
        claims = [seconds for each in pool.map(work, range(connections)) for seconds in each]
    return Worked(tuple(claims), len(claims) * GROUP / (time.monotonic() - begun))


def _work(connection: Connection, workflow: Workflow) -> float:
    worker_id = add_worker(connection, workflow)
    connection.commit()
    begun = time.monotonic()
    claimed = claiming.claim(connection, workflow, limit=GROUP, worker_id=worker_id)
    connection.commit()
    seconds = time.monotonic() - begun
    if len(claimed) != GROUP:
        raise RuntimeError(f"{len(claimed)} runs were claimed where {GROUP} were asked for.")
    lifecycle.start(connection, worker_id, [run.run_id for run in claimed])
    connection.commit()
    finished = lifecycle.finish(connection, worker_id, _results(claimed))
    connection.commit()
    if len(finished) != GROUP:
        raise RuntimeError(f"{len(finished)} runs were finished where {GROUP} were claimed.")
    return seconds


def _results(claimed: Sequence[claiming.ClaimedRun]) -> list[lifecycle.RunResult]:
    return [lifecycle.RunResult(run_id=run.run_id, state="success", output=b'{"seen": true}') for run in claimed]
