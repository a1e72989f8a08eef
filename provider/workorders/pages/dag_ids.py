"""The ids of the Dags whose rights decide about a page, and to which pages link."""

from uuid import UUID


def of_workflow(workflow: str) -> str:
    """Return the Dag that executes a workflow's runs: who may read it may read its work orders of every source."""
    return f"{workflow}_runs"


def run_of(run_id: UUID) -> str:
    """Return the id of the Dag run that does the work of a run, if the workflow is a Dag."""
    return f"run_{run_id}"


def listener(trigger: str) -> str:
    """Return the Dag that waits for messages of a Kafka trigger and plans its batches."""
    return f"{trigger}_listener"


def ingest(trigger: str) -> str:
    """Return the Dag that ingests the batches of a Kafka trigger."""
    return f"{trigger}_ingest"


def relay() -> str:
    """Return the Dag that sends the messages of the outbox."""
    return "outbox_relay"
