"""The ids of the package's Dags and of the Dag runs that it starts: code, pages, and commands get them here."""

from typing import Final
from uuid import UUID

_SHARED: Final = "workorders_"
_REFUSED: Final = "_refused"

MAINTENANCE: Final = f"{_SHARED}maintenance"
"""The Dag of what is due by the clock for the whole database."""

METRICS: Final = f"{_SHARED}metrics"
"""The Dag that sends the metrics to Airflow's stats."""


def outbox(shard: int) -> str:
    """Return the Dag that sends the messages of a shard of the outbox."""
    return f"{_SHARED}outbox_{shard}"


OUTBOX: Final = outbox(0)
"""The Dag of the first shard, which always exists: the rights to it are those to the whole outbox."""


def of_workflow(workflow: str) -> str:
    """Return the Dag that executes a workflow's runs: who may read it may read its work orders of every source."""
    return f"{workflow}_runs"


def run_of(run_id: UUID) -> str:
    """Return the id of the Dag run that does the work of a run, if the workflow is a Dag."""
    return f"run_{run_id}"


def cron(trigger: str) -> str:
    """Return the Dag that creates the work orders of a cron trigger."""
    return f"{trigger}_cron"


def manual(trigger: str) -> str:
    """Return the Dag with the form of a manual trigger."""
    return f"{trigger}_manual"


def sources_of(trigger: str) -> tuple[str, str, str]:
    """Return the Dags of which one takes a trigger's input, by the trigger's type."""
    return listener(trigger), cron(trigger), manual(trigger)


def of_trigger(trigger: str) -> set[str]:
    """Return the Dags of a trigger of any type."""
    return {*sources_of(trigger), ingest(trigger)}


def trigger_of_source(dag_id: str) -> str | None:
    """Return the trigger whose input this Dag takes; None for another Dag."""
    name = dag_id.rpartition("_")[0]
    return name if name and dag_id in sources_of(name) else None


def refused(source: str) -> str:
    """Return the Dag in place of those of a file or a module with a mistake."""
    return f"{source}{_REFUSED}"


def is_refused(dag_id: str) -> bool:
    """Return whether the Dag is in place of those of a file or a module with a mistake."""
    return dag_id.endswith(_REFUSED)


def is_shared(dag_id: str) -> bool:
    """Return whether the Dag serves all triggers and workflows."""
    return dag_id.startswith(_SHARED)


def listener(trigger: str) -> str:
    """Return the Dag that waits for messages of a Kafka trigger and plans its batches."""
    return f"{trigger}_listener"


def ingest(trigger: str) -> str:
    """Return the Dag that ingests the batches of a Kafka trigger."""
    return f"{trigger}_ingest"


def trigger_of_ingest(dag_id: str) -> str | None:
    """Return the Kafka trigger whose ingest Dag this is; None for another Dag."""
    name = dag_id.removesuffix("_ingest")
    return name if name and name != dag_id else None


def batch(batch_id: int) -> str:
    """Return the id of the ingest run of a batch: derived from it, so that a second dispatch starts no other."""
    return f"batch_{batch_id}"


def batch_of(run_id: str) -> int | None:
    """Return the batch of an ingest run; None for a run that a person started."""
    number = run_id.removeprefix("batch_")
    # No longer than the largest bigint.
    is_batch = number != run_id and number.isascii() and number.isdecimal() and len(number) < 19  # noqa: PLR2004
    return int(number) if is_batch else None
