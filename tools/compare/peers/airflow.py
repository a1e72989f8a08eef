"""Airflow's own `KafkaSharedStreamTrigger`, with a Dag that inserts a row for each message."""

from importlib.metadata import version
from pathlib import Path
from typing import Final

import psycopg

from compare.case import Case
from compare.peer import HERE, Command, Peer, required
from local_stack.airflow import Airflow
from support.consumed import consumed

_PROVIDER: Final = "https://airflow.apache.org/docs/apache-airflow-providers-apache-kafka/stable"
_EVENTS: Final = "https://airflow.apache.org/docs/apache-airflow/stable/authoring-and-scheduling/event-scheduling.html"
_FAILED: Final = """
    SELECT count(*) FROM dagrun_asset_event JOIN dag_run ON dag_run.id = dag_run_id WHERE dag_run.state = 'failed'
"""


class AirflowTrigger(Peer):
    """Airflow alone."""

    slug = "airflow"
    name = "Airflow's Kafka trigger"
    settings = (
        f"[`KafkaSharedStreamTrigger`]({_PROVIDER}/triggers.html) with `dlq_topic` and `enable.auto.commit=false`, "
        f"an [`AssetWatcher`]({_EVENTS}), and a Dag with `max_active_runs=1` and `retries=5`"
    )
    processes = 4
    patience = 120.0

    def __init__(self) -> None:
        self._airflows: dict[str, Airflow] = {}

    def version(self) -> str:
        return f"Airflow {version('apache-airflow')}, Kafka provider {version('apache-airflow-providers-apache-kafka')}"

    def parts(self) -> int:
        return len(required("apache-airflow") | required("apache-airflow-providers-apache-kafka"))

    def prepare(self, case: Case) -> None:
        stack = case.site.stack
        stack.postgres.create_database(_database(case))
        case.topics.create(_dead(case), 1)
        consumer = {
            "bootstrap.servers": case.servers,
            "group.id": self.group_id(case),
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
            # A consumer that was killed keeps its partitions for so long; 45 s by default.
            "session.timeout.ms": 10_000,
        }
        home = stack.home / case.topic
        home.mkdir()
        self._airflows[case.topic] = Airflow(
            home,
            stack.logs,
            metadata_url=case.url(_database(case), "postgresql+psycopg2"),
            database_url=case.url(),
            kafka_settings=consumer,
            dags_folder=HERE / "airflow_dags",
            program=Path(),
        )
        self._airflows[case.topic].home.mkdir()
        migrate = stack.process(f"{case.topic}-migrate", ["airflow", "db", "migrate"], self._environment(case))
        migrate.finish(seconds=180, what="Making Airflow's tables")

    def command(self, case: Case, number: int) -> Command:
        port = self._airflows[case.topic].settings["AIRFLOW__API__PORT"]
        words = (
            ["api-server", "--host", "127.0.0.1", "--port", port],
            ["scheduler", "--skip-serve-logs"],
            ["dag-processor"],
            ["triggerer", "--skip-serve-logs"],
        )
        return Command(["airflow", *words[number]], self._environment(case))

    def _environment(self, case: Case) -> dict[str, str]:
        return {
            **self._airflows[case.topic].settings,
            "EFFECTS_URL": case.url(),
            "COMPARE_TOPIC": case.topic,
            "COMPARE_TABLE": case.table,
            "COMPARE_DEAD": _dead(case),
        }

    def kept(self, case: Case) -> int:
        with psycopg.connect(case.site.stack.postgres.url(_database(case))) as connection:
            failed = connection.execute(_FAILED).fetchone()
        return len(consumed(case.site.kafka_settings, _dead(case))) + (failed[0] if failed else 0)


def _database(case: Case) -> str:
    return f"airflow_{case.table}"


def _dead(case: Case) -> str:
    return f"{case.topic}-dead"


AIRFLOW: Final = AirflowTrigger()
