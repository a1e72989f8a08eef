"""The waits for runs of work orders, and for their Dag runs; all of a triggerer share one query per second."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from workorders import dag_ids
from workorders.airflow.connections import async_database_url
from workorders.airflow.dag_runs.client import DagRuns
from workorders.airflow.triggers.polling import PollingTrigger, Probe, TriggererDatabase, shared
from workorders.core import workflows
from workorders.core.definitions.validation import validate
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.runs import claiming, delegation
from workorders.core.runs.delegation import DelegatedRun
from workorders.core.workflows import Workflow

POLL_SECONDS: Final = 1.0
"""Time between two queries of one database, however many workflows wait."""
DAG_RUNS_POLL_SECONDS: Final = 2.0
"""Time between two questions to Airflow about the Dag runs of a workflow."""
_PAUSE_FACTOR: Final = 9
"""A query takes at most a tenth of the time: it is slow if very many ordering keys wait for a retry."""


class SharedPoller(TriggererDatabase):
    """Polls one database for all workflows that wait in this process, with one query for all."""

    def __init__(self, database_url: str) -> None:
        super().__init__(database_url)
        self._names: Counter[str] = Counter()
        self._lock = asyncio.Lock()
        self._poll_at = 0.0
        self._claimable: frozenset[str] = frozenset()

    @asynccontextmanager
    async def subscribed(self, definition: WorkflowDefinition) -> AsyncIterator[Workflow]:
        """Poll for a workflow as well, and store its definition if none is stored; give the workflow with this one.

        A wait lasts up to an hour, and starts again with its old arguments when the triggerer does. The file may have
        changed since, so tasks that read it store what is newer.
        """
        async with self._lock:
            workflow = await self.run(workflows.register_unless_known, definition)
        self._names[workflow.name] += 1
        try:
            yield workflow
        finally:
            self._names -= Counter([workflow.name])

    async def is_claimable(self, name: str) -> bool:
        """Return whether the workflow has something to do, by a query that is at most about `POLL_SECONDS` old.

        A slow query is made less often.
        """
        async with self._lock:
            begun = time.monotonic()
            if begun >= self._poll_at:
                found = await self.run(claiming.list_claimable, list(self._names))
                self._claimable = frozenset(claimable.workflow for claimable in found)
                now = time.monotonic()
                self._poll_at = max(begun + POLL_SECONDS, now + _PAUSE_FACTOR * (now - begun))
            return name in self._claimable


class WaitForRunsTrigger(PollingTrigger):
    """Fires when a workflow has a run that can be claimed, or a lost one.

    For a workflow that runs a Dag, it fires as well when a Dag run has ended or lasted too long; and for a run only if
    another Dag run may be started. The definition is registered when the wait begins. It waits out an outage of the
    database; any other failure fails the task.
    """

    def __init__(
        self,
        *,
        definition: dict[str, Any],
        idle_after: float = 3600.0,
        **_from_another_version: Any,
    ) -> None:
        runs_dag = definition.get("dag_id") is not None
        awaited = f"runs of workflow {definition['name']}"
        super().__init__(
            subject=f"Workflow {definition['name']}",
            waiting_for=f"{awaited}, and for the ends of its Dag runs" if runs_dag else awaited,
            poll_interval=DAG_RUNS_POLL_SECONDS if runs_dag else POLL_SECONDS,
            idle_after=idle_after,
        )
        self.definition = definition

    @asynccontextmanager
    async def open_probe(self) -> AsyncIterator[Probe]:
        """Register the workflow, so that ordering keys and limits apply before any run starts, and poll for it."""
        definition = validate(self.definition, WorkflowDefinition, where=str(self.definition["name"]))
        database_url = await async_database_url(definition.database_connection)
        probe = _look_for_runs if definition.dag_id is None else _look_for_dag_runs
        async with (
            shared(SharedPoller, database_url) as poller,
            poller.subscribed(definition) as workflow,
        ):
            yield partial(probe, poller, workflow, definition)


async def _look_for_runs(poller: SharedPoller, workflow: Workflow, _: WorkflowDefinition) -> str | None:
    return "There are runs to claim, or lost ones to recover." if await poller.is_claimable(workflow.name) else None


async def _look_for_dag_runs(poller: SharedPoller, workflow: Workflow, definition: WorkflowDefinition) -> str | None:
    runs = await poller.run(delegation.list_delegated, workflow)
    if any(run.seconds > definition.timeout for run in runs):
        return f"A run has lasted longer than timeout ({definition.timeout:g} s)."
    if await _has_ended(DagRuns(str(definition.dag_id)), runs):
        return "A Dag run has ended."
    if len(runs) >= definition.max_dag_runs or not await poller.is_claimable(workflow.name):
        return None
    return "There are runs to claim."


async def _has_ended(dag_runs: DagRuns, runs: Sequence[DelegatedRun]) -> bool:
    """Return whether a Dag run has ended or was deleted, its own or the one that a run waits for."""
    started = [dag_ids.run_of(run.run_id) for run in runs if run.is_started]
    if await dag_runs.count_unfinished(started) < len(started):
        return True
    for run in runs:
        if not run.is_started and not await dag_runs.count_unfinished([dag_ids.run_of(one) for one in run.earlier]):
            return True
    return False
