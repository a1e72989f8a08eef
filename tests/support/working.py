"""A workflow with its own trigger, whose work orders a test creates and executes."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from support.work_orders import REQUEST
from workorders.core import triggers, workflows
from workorders.core.creation.work_orders import create_for
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.items import Item
from workorders.core.postgres.connection import Connection
from workorders.core.runs import claiming, lifecycle
from workorders.core.runs.claiming import ClaimedRun
from workorders.core.runs.lifecycle import RunResult
from workorders.core.triggers import Trigger
from workorders.core.workers import add_worker
from workorders.core.workflows import Workflow


@dataclass(frozen=True, slots=True)
class Working:
    """A workflow, its trigger, and a connection on which every step is committed."""

    connection: Connection
    workflow: Workflow
    trigger: Trigger

    @classmethod
    def on(cls, connection: Connection, name: str, **fields: Any) -> "Working":
        """Register a workflow with some fields, and a trigger for it, both of that name."""
        definition = WorkflowDefinition.model_validate({"name": name, "callable": "some.module:function", **fields})
        workflow = workflows.register(connection, definition)
        trigger = triggers.register(connection, name=name, type_="test", workflow=name, definition={})
        connection.commit()
        return cls(connection, workflow, trigger)

    def through(self, connection: Connection) -> "Working":
        """Return the same on another connection."""
        return Working(connection, self.workflow, self.trigger)

    def create(self, items: Iterable[Item], *, fresh: bool = True) -> None:
        create_for(self.connection, self.trigger, items, fresh=fresh)
        self.connection.commit()

    def create_some(self, count: int, *, stream: str = "s", start: int = 0) -> None:
        """Create work orders at consecutive positions of a stream."""
        self.create(Item(stream, start + number, REQUEST, b'{"a":1}') for number in range(count))

    def claim(self, limit: int = 100, worker_id: UUID | None = None) -> list[ClaimedRun]:
        worker_id = add_worker(self.connection, self.workflow, worker_id)
        found = claiming.claim(self.connection, self.workflow, limit=limit, worker_id=worker_id)
        self.connection.commit()
        return found

    def claim_as_worker(self, limit: int = 100) -> "ClaimingWorker":
        worker_id = uuid4()
        return ClaimingWorker(self, worker_id, self.claim(limit, worker_id))

    def states(self) -> list[str]:
        """Return the states of the work orders, by stream and position."""
        return [
            state
            for (state,) in self.connection.execute(
                "SELECT state::text FROM workorders.work_orders WHERE workflow_id = %s ORDER BY stream_id, position",
                (self.workflow.id,),
            )
        ]

    def runs(self) -> list[tuple[int | None, int, str]]:
        """Return position, attempt and state of each run that has a row."""
        return self.connection.execute(
            """
            SELECT work_orders.position, runs.attempt, runs.state::text
            FROM workorders.runs JOIN workorders.work_orders ON work_orders.id = runs.work_order_id
            WHERE runs.workflow_id = %s ORDER BY work_orders.position, runs.attempt
            """,
            (self.workflow.id,),
        ).fetchall()

    def rerun(self, position: int, *, priority: int = 0) -> None:
        """Ask for another run of the finished work order at a position, as `core.bulk.runner` does."""
        self.connection.execute(
            """
            WITH reopened AS (
                UPDATE workorders.work_orders SET state = 'requeued'
                WHERE workflow_id = %(workflow_id)s AND position = %(position)s RETURNING id, ordering_key
            )
            INSERT INTO workorders.runs (id, work_order_id, workflow_id, ordering_key, attempt, state, priority)
            SELECT %(id)s, id, %(workflow_id)s, ordering_key,
                (SELECT max(attempt) + 1 FROM workorders.runs WHERE work_order_id = reopened.id), 'available',
                %(priority)s
            FROM reopened
            """,
            {"workflow_id": self.workflow.id, "position": position, "id": uuid4(), "priority": priority},
        )
        self.connection.commit()

    def put_back(self, position: int) -> None:
        """Let a work order look as if its transaction had only now ended."""
        self.connection.execute(
            """
            WITH back AS (
                UPDATE workorders.work_orders SET state = 'pending'
                WHERE workflow_id = %s AND position = %s RETURNING id
            )
            DELETE FROM workorders.runs WHERE work_order_id IN (SELECT id FROM back)
            """,
            (self.workflow.id, position),
        )
        self.connection.commit()

    def make_due(self) -> None:
        """Let every delay be over."""
        self.connection.execute(
            "UPDATE workorders.runs SET not_before = now() - interval '1 s' WHERE workflow_id = %s AND state = %s",
            (self.workflow.id, "available"),
        )
        self.connection.commit()


@dataclass(frozen=True, slots=True)
class ClaimingWorker:
    """Runs that were claimed together."""

    working: Working
    id: UUID
    claimed: list[ClaimedRun]

    @property
    def positions(self) -> list[int | None]:
        return positions(self.claimed)

    @property
    def run_ids(self) -> list[UUID]:
        return [run.run_id for run in self.claimed]

    def start(self) -> frozenset[UUID]:
        started = lifecycle.start(self.working.connection, self.id, self.run_ids)
        self.working.connection.commit()
        return started

    def finish(self, *states: lifecycle.FinalState, **fields: Any) -> dict[UUID, bool]:
        """Finish the first runs of the worker with these states."""
        results = [
            RunResult(run_id=run_id, state=state, **fields) for run_id, state in zip(self.run_ids, states, strict=False)
        ]
        finished = lifecycle.finish(self.working.connection, self.id, results)
        self.working.connection.commit()
        return finished

    def succeed(self) -> dict[UUID, bool]:
        """Finish all runs with success."""
        return self.finish(*["success"] * len(self.claimed))  # type: ignore[arg-type]

    def fail(self) -> dict[UUID, bool]:
        """Finish all runs as failed."""
        return self.finish(*["failed"] * len(self.claimed))  # type: ignore[arg-type]

    def fall_silent(self) -> None:
        """Let the grace period of the last heartbeat be over."""
        expire_workers(self.working.connection, self.working.workflow)
        self.working.connection.commit()


def expire_workers(connection: Connection, workflow: Workflow) -> None:
    """Let the workers of a workflow have been silent for too long, in the caller's transaction; some never expire."""
    connection.execute(
        "UPDATE workorders.workers SET expires_at = now() - interval '1 s' "
        "WHERE workflow_id = %s AND expires_at IS NOT NULL",
        [workflow.id],
    )


def positions(claimed: Iterable[ClaimedRun]) -> list[int | None]:
    """Return the places in the stream of claimed runs."""
    return [run.position for run in claimed]
