"""A workflow of a test's own, its work orders, and workers that execute them."""

import json
import os
import signal
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from support.eventually import eventually
from support.working import expire_workers
from workorders.core import triggers, workflows
from workorders.core.creation.work_orders import create_for
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.items import Item, Message
from workorders.core.postgres.connection import Connection, connect
from workorders.core.runs import claiming, lifecycle
from workorders.core.runs.lifecycle import Recovered
from workorders.core.worker.worker import Worker
from workorders.core.workers import add_worker
from workorders.core.workflows import Workflow


class Executing:
    """One workflow in a real database."""

    def __init__(self, database_url: str, name: str, function: str | None = "behave", **fields: Any) -> None:
        self.url = database_url
        self.name = name
        self.sent: list[Message] = []
        self.logged: list[str] = []
        called = {"callable": f"support.run_functions:{function}", "processes": 1, "linger": 0} if function else {}
        given = {"name": name, **called, **fields}
        with connect(database_url) as connection:
            self.workflow: Workflow = workflows.register(connection, WorkflowDefinition.model_validate(given))
            triggers.register(connection, name=name, type_="manual", workflow=name, definition={})

    def create(self, bodies: Iterable[Any], stream: str | None = None) -> None:
        """Create a work order for each input."""
        self.create_text((json.dumps(body).encode() for body in bodies), stream)

    def create_text(self, bodies: Iterable[bytes], stream: str | None = None) -> None:
        """Create a work order for each input, which is JSON text."""
        with connect(self.url) as connection:
            trigger = triggers.find(connection, self.name)
            items = [Item(stream, number if stream else None, b"{}", body) for number, body in enumerate(bodies)]
            create_for(connection, trigger, items)

    def worker(self, *, linger: float | None = None, **fields: Any) -> Worker:
        """Return a worker that has not begun; with another `linger` than the workflow's if one is given."""
        workflow, definition = self.workflow, self.workflow.definition
        if linger is not None and definition is not None:
            workflow = replace(workflow, definition=definition.model_copy(update={"linger": linger}))
        given = {"database_url": self.url, "enqueue": self._enqueue, "log": self.logged.append, **fields}
        return Worker(workflow, **given)

    def states(self) -> list[tuple[str, str | None]]:
        """Return the state of each work order and of its last run, in the order in which they were created."""
        return self.rows(
            """
            SELECT work_orders.state::text, (
                SELECT runs.state::text FROM workorders.runs
                WHERE runs.work_order_id = work_orders.id ORDER BY attempt DESC LIMIT 1
            )
            FROM workorders.work_orders WHERE workflow_id = %(workflow_id)s ORDER BY position, id
            """
        )

    def ids(self) -> list[str]:
        """Return the id of each work order, in the order in which they were created."""
        found = self.rows("SELECT id::text FROM workorders.work_orders WHERE workflow_id = %(workflow_id)s ORDER BY id")
        return [id_ for (id_,) in found]

    def at_sleep(self) -> bool:
        """Return whether a run was started and has not ended."""
        return ("running", "started") in self.states()

    def rows(self, query: Any) -> list[Any]:
        """Return the rows of a query that may name the workflow."""
        with connect(self.url) as connection:
            return connection.execute(query, {"workflow_id": self.workflow.id}).fetchall()

    def claim_and_fall_silent(self) -> None:
        """Claim everything for a worker that sends no heartbeat."""
        with connect(self.url) as connection:
            claiming.claim(connection, self.workflow, limit=1000, worker_id=add_worker(connection, self.workflow))
            expire_workers(connection, self.workflow)

    def lose(self, is_time: Callable[[], object], **fields: Any) -> None:
        """Execute everything in a process that is killed when it is time, and recover its runs."""
        pid = os.fork()
        if pid == 0:
            try:
                self.worker(**fields).work()
            finally:
                os._exit(1)
        eventually(is_time, seconds=30, what="the run")
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        self.recover()

    def recover(self) -> Recovered:
        """Recover the runs of a worker as if it had sent no heartbeat for long, once it is in no transaction."""
        found: list[Recovered] = []

        def has_recovered() -> bool:
            with connect(self.url) as connection:
                expire_workers(connection, self.workflow)
                found.append(lifecycle.recover_lost(connection, self.workflow))
            return found[-1] != Recovered()

        eventually(has_recovered, seconds=30, what="the recovery")
        return found[-1]

    def _enqueue(self, connection: Connection, messages: Sequence[Message]) -> None:
        self.sent += messages
