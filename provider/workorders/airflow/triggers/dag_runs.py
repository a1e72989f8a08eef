"""The Airflow trigger of workflows that run a Dag: Dag runs are waited for in the triggerer, without a worker."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from workorders.airflow.connections import async_database_url
from workorders.airflow.dag_runs.client import DagRuns
from workorders.airflow.dag_runs.ends import dag_run_id_of, max_dag_runs
from workorders.airflow.triggers.polling import Probe
from workorders.airflow.triggers.resources import TriggererDatabase, resources
from workorders.airflow.triggers.runs import SharedPoller, WaitForRunsTrigger, register
from workorders.core.definitions.loading import parse_workflow
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.runs import claiming, delegation
from workorders.core.runs.delegation import DelegatedRun
from workorders.core.workflows import Workflow

POLL_SECONDS: Final = 2.0
"""Time between two questions to Airflow for the Dag runs of one workflow."""


class WaitForDagRunsTrigger(WaitForRunsTrigger):
    """Fires when a Dag run of a workflow has ended or lasted too long, or when another one may be started.

    See `WaitForRunsTrigger`.
    """

    probe_seconds = POLL_SECONDS
    awaited = "runs of workflow {}, and for the ends of its Dag runs"

    @asynccontextmanager
    async def open_probe(self) -> AsyncIterator[Probe]:
        """Register the workflow, and watch its runs and its Dag runs."""
        database_url = await async_database_url(self.database_connection)
        definition = parse_workflow(self.definition, where=self.subject)
        workflow = await asyncio.to_thread(register, database_url, self.definition)
        async with (
            resources.use(TriggererDatabase, database_url) as database,
            resources.use(SharedPoller, database_url) as poller,
        ):
            with poller.subscribed(workflow.name):
                yield partial(self._probe, workflow, definition, database, poller)

    async def _probe(
        self, workflow: Workflow, definition: WorkflowDefinition, database: TriggererDatabase, poller: SharedPoller
    ) -> str | None:
        rows = await database.fetch(*delegation.delegated_statement(workflow.name))
        runs = [delegation.delegated_run(row) for row in rows]
        if any(run.seconds > definition.timeout_seconds for run in runs):
            return f"A run has lasted longer than timeout_seconds ({definition.timeout_seconds:g})."
        if await _has_ended(DagRuns(str(definition.dag_id)), runs):
            return "A Dag run has ended."
        if len(runs) >= max_dag_runs(definition) or not await poller.is_claimable(workflow.name):
            return None
        # The shared query ignores that a run waits for another one of its ordering key.
        if definition.ordering_key is not None and not any(
            [await database.fetch(*statement) for statement in claiming.free_ordering_key_statements(workflow)]
        ):
            return None
        return "There are runs to claim."


async def _has_ended(dag_runs: DagRuns, runs: Sequence[DelegatedRun]) -> bool:
    """Return whether a Dag run has ended or was deleted, its own or the one that a run waits for."""
    started = [dag_run_id_of(run.run_id) for run in runs if run.is_started]
    if await dag_runs.count_unfinished(started) < len(started):
        return True
    for run in runs:
        if not run.is_started and not await dag_runs.count_unfinished([dag_run_id_of(one) for one in run.earlier]):
            return True
    return False
