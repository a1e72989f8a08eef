"""Airflow's own provider for OpenLineage sends what a batch read and wrote, and Spark learns its parent."""

import json
from typing import Any
from uuid import uuid4

import pytest

from local_stack.loopback_server import LoopbackServer, Request
from local_stack.stack import LocalStack
from support.airflow_api import AirflowApi
from support.command_lines import CommandLines
from support.definition_files import write_definitions
from support.eventually import eventually
from support.flow import SECONDS, Flow
from support.observed_trigger import ObservedTrigger, some_events

pytestmark = pytest.mark.long


class LineageServer(LoopbackServer):
    """Receives events by HTTP, from entering the context until leaving it.

    Args:
        api_key: the key without which events are refused.
    """

    def __init__(self, api_key: str) -> None:
        super().__init__(self._take)
        self.api_key = api_key
        #: Events so far, in the order in which they came.
        self.events: list[dict[str, Any]] = []

    @property
    def transport(self) -> dict[str, Any]:
        """What `[openlineage] transport` is set to."""
        return {"type": "http", "url": self.url, "auth": {"type": "api_key", "apiKey": self.api_key}}

    def completed(self, job: str) -> dict[str, Any] | None:
        """Return the event of a job's first success; none until it came."""
        return next(
            (event for event in self.events if event["job"]["name"] == job and event["eventType"] == "COMPLETE"), None
        )

    def _take(self, request: Request) -> tuple[int, bytes]:
        if request.headers.get("authorization") != f"Bearer {self.api_key}":
            return 401, b""
        self.events.append(json.loads(request.body))
        return 201, b""


NAME = "traced"
TOPIC = f"scenario.{NAME}"
TRIGGER = {"name": NAME, "type": "kafka", "workflow": "without_a_file", "topics": [TOPIC]}
"""Its batches are submitted to Spark."""
MESSAGES = 30


def completed(lineage: LineageServer, job: str) -> dict[str, Any]:
    """Wait for the event of a job's success, and return it."""
    event = eventually(lambda: lineage.completed(job), seconds=SECONDS, what=f"lineage of {job}")
    assert event is not None
    return event


def test_lineage_leads_from_topic_to_table_and_spark_is_told_its_parent(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with (
        LineageServer(api_key=uuid4().hex) as lineage,
        LocalStack(
            airflow=True,
            triggers_folder=write_definitions(tmp_path_factory.mktemp("triggers"), TRIGGER),
            workflows_folder=tmp_path_factory.mktemp("workflows"),
            environment={
                "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(lineage.transport),
                "AIRFLOW__OPENLINEAGE__SPARK_INJECT_PARENT_JOB_INFO": "True",
                "AIRFLOW__OPENLINEAGE__SPARK_INJECT_TRANSPORT_INFO": "True",
                # A process that sends an event is killed after this; ten seconds are too few where many tests run.
                "AIRFLOW__OPENLINEAGE__EXECUTION_TIMEOUT": "120",
            },
            name="lineage",
        ) as stack,
        CommandLines(stack.supervisor_pid) as command_lines,
    ):
        api = AirflowApi(stack.airflow_url)
        trigger = ObservedTrigger.on_stack(stack, NAME, TOPIC)
        trigger.create_topic(2)
        Flow(api, trigger).until_ingested(trigger.produce(some_events(MESSAGES, 2)))
        ingest = completed(lineage, f"{NAME}_ingest.create_work_orders")
        api.close()

    kafka, database = f"kafka://{stack.bootstrap_servers}", "workorders.workorders"
    (read,), (written,) = ingest["inputs"], ingest["outputs"]
    assert (read["namespace"], read["name"]) == (kafka, TOPIC)
    offsets = read["inputFacets"]["workordersOffsets"]
    assert offsets["trigger"] == NAME
    assert sum(part["created"] for part in offsets["ranges"]) == written["outputFacets"]["outputStatistics"]["rowCount"]
    assert written["name"] == f"{database}.work_orders"

    submitted = [line for line in command_lines.seen if "--batch" in line]
    given = {argument for line in submitted for argument in line}
    assert f"spark.openlineage.parentRunId={ingest['run']['runId']}" in given
    assert f"spark.openlineage.parentJobName={NAME}_ingest.create_work_orders" in given
    assert f"spark.openlineage.transport.url={lineage.transport['url']}" in given
    assert [line for line in command_lines.seen if any(lineage.api_key in argument for argument in line)] == []
