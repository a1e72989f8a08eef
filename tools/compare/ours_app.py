"""`python -m compare.ours_app TRIGGER WORKFLOW`: what the Dags of a trigger and a workflow do.

It needs no Airflow. A task that fails is started again, as Airflow does. Both definitions are JSON.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg

from faults.role import commit, ingest, planned
from workorders.core import workflows
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.exceptions import WorkOrdersError
from workorders.core.postgres.connection import connect
from workorders.core.runs import lifecycle
from workorders.core.worker.worker import Worker
from workorders.kafka.client.secrets import JobSecrets
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.ledger import batches
from workorders.outbox.enqueue import enqueue_published

_PAUSE_SECONDS = 0.5


def _forever(task: Callable[[], None]) -> None:
    while True:
        with _logged():
            task()
        time.sleep(_PAUSE_SECONDS)


@contextmanager
def _logged() -> Iterator[None]:
    try:
        yield
    except (WorkOrdersError, psycopg.Error) as error:
        print(f"ERROR {type(error).__name__}: {' '.join(str(error).split())}", flush=True)


def _ingest(connections: JobSecrets, definition: KafkaTriggerDefinition, mine: set[int]) -> None:
    """Plan a batch, and make an attempt at each of mine that is not finished: Airflow starts a failed task again."""
    _, waiting = planned(connections, definition)
    mine.update(waiting)
    for batch_id in _unfinished(connections, definition):
        if batch_id in mine:
            with _logged():
                ingest(connections, batch_id)
                commit(connections, batch_id)


def _unfinished(connections: JobSecrets, definition: KafkaTriggerDefinition) -> list[int]:
    with connect(connections.database_url, application_name="workorders plan") as connection:
        return batches.list_unfinished(connection, definition.name)


def _execute(url: str, definition: WorkflowDefinition) -> None:
    """Do what the task `execute_runs` does."""
    with connect(url, application_name="workorders execute") as connection:
        workflow = workflows.register(connection, definition)
        connection.commit()
        lifecycle.recover_lost(connection, workflow)
    worker = Worker(workflow, database_url=url, user_database=os.environ["EFFECTS_URL"], enqueue=enqueue_published)
    worker.work()


def main(trigger: str, workflow: str) -> None:
    """Work until the process is ended."""
    connections = JobSecrets.from_environment()
    definition = KafkaTriggerDefinition.model_validate_json(trigger)
    executed = WorkflowDefinition.model_validate_json(workflow)
    # The tasks of a predecessor that was killed at work; a second process leaves those of the first alone.
    mine = set(_unfinished(connections, definition))
    threading.Thread(target=_forever, args=(lambda: _ingest(connections, definition, mine),), daemon=True).start()
    _forever(lambda: _execute(connections.database_url, executed))


if __name__ == "__main__":
    main(*sys.argv[1:])
