"""This package: the tasks of a trigger's Dags and a worker, on a Spark Connect server or by submitted applications."""

import sys
from collections.abc import Mapping
from importlib.metadata import version
from typing import Final

import psycopg

from compare.case import PARTITIONS, Case
from compare.peer import Command, Peer, required
from faults.role import GROWS_ON
from faults.tasks import Task
from support.attempt_on_server import ON_SERVER
from support.definitions import define
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.worker.user_database import CREATE_TABLE
from workorders.kafka.definition.trigger import KafkaTriggerDefinition

_REJECTED: Final = """
    SELECT count(*) FROM workorders.work_orders AS orders
    JOIN workorders.triggers ON triggers.id = orders.trigger_id
    WHERE triggers.name = %(name)s AND orders.state NOT IN ('success', 'pending', 'requeued', 'running')
"""
_LEDGER: Final = """
    SELECT ledger.partition, ledger.last_error FROM workorders.kafka_ledger AS ledger
    JOIN workorders.triggers ON triggers.id = ledger.trigger_id
    WHERE triggers.name = %(name)s AND ledger.status = 'stalled'
"""
_LINGER: Final = KafkaTriggerDefinition.model_fields["linger"].default


class Ours(Peer):
    """workorders."""

    patience = 100.0
    """A worker's runs are recovered a minute after its last heartbeat."""

    def __init__(self, slug: str, name: str, *, on_server: bool) -> None:
        self.slug = slug
        self.name = name
        self.settings = (
            "`context.transaction`, `ordering_key: key`, and `max_retries: 5` of the "
            "[workflow](../reference/workflow-file.md)"
        )
        self._on_server = on_server

    def version(self) -> str:
        return f"workorders {version('airflow-provider-workorders')}"

    def parts(self) -> int:
        return len(required("airflow-provider-workorders[airflow,kafka,spark]"))

    def prepare(self, case: Case) -> None:
        with psycopg.connect(case.site.stack.database_url) as connection:
            connection.execute(CREATE_TABLE)
        if self._on_server:
            case.site.stack.start_spark_connect()

    def command(self, case: Case, number: int) -> Command:
        server = case.site.stack.spark_connect
        environment = {
            "WORKORDERS_DATABASE_URL": case.url(),
            "EFFECTS_URL": case.url(),
            "COMPARE_TABLE": case.table,
            GROWS_ON: "1",
            **({ON_SERVER: server.airflow_connection} if self._on_server else {}),
        }
        trigger = define(case.topic, workflow=case.topic, linger=_LINGER)
        workflow = WorkflowDefinition.model_validate(
            {
                "name": case.topic,
                "callable": "compare.ours_function:run",
                "processes": 2,
                "database": "effects",
                "ordering_key": "key",
                "retries": {"max_retries": 5, "first_delay": 1},
            }
        )
        given = [trigger.model_dump_json(), workflow.model_dump_json()]
        return Command([sys.executable, "-m", "compare.ours_app", *given], environment)

    def kept(self, case: Case) -> int:
        return int(case.site.admin(_REJECTED, {"name": case.topic})[0][0])

    def servers(self, case: Case) -> list[int]:
        return [case.site.stack.spark_connect.process.pid] if self._on_server else []

    def group_id(self, case: Case) -> str:
        return define(case.topic, workflow=case.topic).consumer_group

    def halted(self, case: Case) -> str:
        stalled = case.site.admin(_LEDGER, {"name": case.topic})
        return f"{len(stalled)} of {PARTITIONS} partitions stalled: {stalled[0][1]}" if stalled else ""

    def remedy(self, case: Case) -> str:
        halted = self.halted(case)
        if not halted:
            return ""
        decision = "accept-topic" if "re-created" in halted else "skip-lost"
        _resolve(case, decision)
        return f"`workorders resolve {decision}`"

    def replay(self, case: Case, offsets: Mapping[int, int]) -> str:
        for partition, offset in offsets.items():
            _resolve(case, "seek", "--partition", f"{partition}", "--offset", f"{offset}")
        return "`workorders resolve seek`"


def _resolve(case: Case, decision: str, *options: str) -> None:
    words = ["resolve", decision, case.topic, case.topic, *options, "--reason", "comparison", "--yes"]
    Task(case.site.command(*words)).succeed()


OURS_CONNECT: Final = Ours("ours-connect", "this package, Spark Connect", on_server=True)
OURS_SUBMITTED: Final = Ours("ours-submitted", "this package, submitted", on_server=False)
