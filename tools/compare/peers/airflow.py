"""Airflow's own `KafkaSharedStreamTrigger`, with a Dag that inserts a row for each message."""

import sys
from importlib.metadata import version
from pathlib import Path
from typing import Final

import psycopg

from compare.case import Case
from compare.peer import HERE, Command, Peer, required
from local_stack.airflow import Airflow
from local_stack.ports import LOOPBACK, free_port
from support.consumed import consumed

_PROVIDER: Final = "https://airflow.apache.org/docs/apache-airflow-providers-apache-kafka/stable"
_EVENTS: Final = "https://airflow.apache.org/docs/apache-airflow/stable/authoring-and-scheduling/event-scheduling.html"
_LIMIT: Final = "https://github.com/apache/airflow/issues/56050"
_PROGRAM: Final = Path(sys.executable).with_name("airflow")
_EMPTY: Final = "airflow_empty"
"""Database with Airflow's tables: that of each case is a copy."""
_HAS_TABLES: Final = "SELECT 1 FROM pg_database WHERE datname = %(name)s"
_FAILED: Final = """
    SELECT count(*) FROM dagrun_asset_event JOIN dag_run ON dag_run.id = dag_run_id WHERE dag_run.state = 'failed'
"""
_LEFT_BEHIND: Final = """
    SELECT count(*) FROM asset_event WHERE id NOT IN (SELECT event_id FROM dagrun_asset_event)
"""
_UNFINISHED: Final = """
    SELECT (SELECT count(*) FROM dag_run WHERE state IN ('queued', 'running'))
         + (SELECT count(*) FROM asset_dag_run_queue)
"""


class AirflowTrigger(Peer):
    """Airflow without this package."""

    slug = "airflow"
    name = "Airflow's Kafka trigger"
    settings = (
        f"[`KafkaSharedStreamTrigger`]({_PROVIDER}/triggers.html) with `dlq_topic` and `enable.auto.commit=false`, "
        f"an [`AssetWatcher`]({_EVENTS}), and a Dag with `retries=5` and so many runs that it never "
        f"reaches the limit at which [events are left behind]({_LIMIT}). It met some of the faults, because each takes "
        "it minutes"
    )
    only = frozenset({"none", "killed-before-commit", "killed-after-commit", "poison", "group-reset"})
    processes = 4
    patience = 60.0
    """A task whose process was killed is repeated half a minute after its last heartbeat."""

    def __init__(self) -> None:
        self._airflows: dict[str, Airflow] = {}

    def version(self) -> str:
        return f"Airflow {version('apache-airflow')}, Kafka provider {version('apache-airflow-providers-apache-kafka')}"

    def parts(self) -> int:
        return len(required("apache-airflow") | required("apache-airflow-providers-apache-kafka"))

    def prepare(self, case: Case) -> None:
        case.topics.create(_dead(case), 1)
        if not case.site.admin(_HAS_TABLES, {"name": _EMPTY}):
            self._create(case, _EMPTY)
            migrate = case.site.stack.process(
                f"{case.topic}-migrate", [_PROGRAM, "db", "migrate"], self._variables(case)
            )
            migrate.finish(seconds=180, what="Making Airflow's tables")
        self._create(case, _database(case), template=_EMPTY)

    def _create(self, case: Case, database: str, template: str = "template1") -> None:
        stack = case.site.stack
        stack.postgres.create_database(database, template=template)
        self._airflows[case.topic] = Airflow(
            stack.home / database,
            stack.logs,
            metadata_url=stack.postgres.url(database, scheme="postgresql+psycopg2"),
            database_url=case.url(),
            kafka_settings={
                "bootstrap.servers": case.servers,
                "group.id": self.group_id(case),
                "auto.offset.reset": "earliest",
                "enable.auto.commit": "false",
                # A consumer that was killed keeps its partitions for so long; 45 s by default.
                "session.timeout.ms": 10_000,
            },
            dags_folder=HERE / "airflow_dags",
            program=_PROGRAM,
        )
        self._airflows[case.topic].home.mkdir(parents=True)

    def command(self, case: Case, number: int) -> Command:
        installation, component = divmod(number, self.processes)
        port = free_port() if installation else self._airflows[case.topic].settings["AIRFLOW__API__PORT"]
        words = (
            ["api-server", "--host", LOOPBACK, "--port", f"{port}"],
            ["scheduler", "--skip-serve-logs"],
            ["dag-processor"],
            ["triggerer", "--skip-serve-logs"],
        )
        return Command([_PROGRAM, *words[component]], self._variables(case))

    def _variables(self, case: Case) -> dict[str, str]:
        return {
            **self._airflows[case.topic].settings,
            # Airflow's default: the runs are fewer, and each has more messages.
            "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "1",
            "EFFECTS_URL": case.url(),
            "COMPARE_TOPIC": case.topic,
            "COMPARE_TABLE": case.table,
            "COMPARE_DEAD": _dead(case),
        }

    def kept(self, case: Case) -> int:
        return len(consumed(case.site.kafka_settings, _dead(case))) + _ask(case, _FAILED)

    def remedy(self, case: Case) -> str:
        # Its scheduler forgets, with the events of a new run, that later ones wait for a run.
        if not _ask(case, _LEFT_BEHIND):
            return ""
        case.produce_one()
        return "another message"

    def is_busy(self, case: Case) -> bool:
        return _ask(case, _UNFINISHED) > 0


def _ask(case: Case, query: str) -> int:
    with psycopg.connect(case.site.stack.postgres.url(_database(case))) as connection:
        row = connection.execute(query.encode()).fetchone()
    return int(row[0]) if row else 0


def _database(case: Case) -> str:
    return f"airflow_{case.table}"


def _dead(case: Case) -> str:
    return f"{case.topic}-dead"


AIRFLOW: Final = AirflowTrigger()
