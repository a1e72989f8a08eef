"""A process that executes the runs of a workflow, one worker after the other, until it is killed.

`python -m support.workers_by_chance DATABASE_URL PROXY_URL WORKFLOW FOLDER SEED`. A file of the folder, named by the id
of this process, contains the id of the current worker.
"""

import os
import sys
from dataclasses import replace
from pathlib import Path
from random import Random
from threading import Timer
from unittest import mock
from uuid import UUID

import psycopg

from workorders.core import workflows
from workorders.core.postgres.connection import connect
from workorders.core.runs import lifecycle
from workorders.core.worker import result_store
from workorders.core.worker.worker import Worker


def recover(database_url: str, workflow: str, worker_id: UUID) -> None:
    """Recover the runs of a worker whose processes have ended, as if it had been silent for long."""
    with connect(database_url) as connection:
        connection.execute(
            "UPDATE workorders.workers SET expires_at = now() - interval '1 s' WHERE id = %s",
            [worker_id],
        )
        lifecycle.recover_lost(connection, workflows.find(connection, workflow))


def main(database_url: str, proxy_url: str, name: str, folder: str, seed: str) -> None:
    """Execute runs; some workers are stopped early."""
    random = Random(seed)
    with connect(database_url) as connection:
        found = workflows.find(connection, name)
    assert found.definition is not None
    while True:
        definition = found.definition.model_copy(update={"time_slice": random.uniform(1, 10), "linger": 60})
        workflow = replace(found, definition=definition)
        worker = Worker(workflow, database_url=proxy_url, enqueue=lambda connection, messages: None)
        (Path(folder) / str(os.getpid())).write_text(str(worker.id))
        stop = Timer(random.uniform(1, 20), worker.stop)
        stop.start()
        try:
            with mock.patch.object(result_store, "_MAX_DELAY_SECONDS", 0):
                worker.work()
        except psycopg.Error as error:
            # It was stopped while an answer was lost; whatever it owned is lost.
            print(error, flush=True)
        stop.cancel()
        recover(database_url, name, worker.id)


if __name__ == "__main__":
    main(*sys.argv[1:])
