"""DBOS for Python: `@DBOS.kafka_consumer`, with the effect in a step or in a transaction of a datasource."""

from functools import cache
from pathlib import Path
from typing import Final

import psycopg

from benchmarks import dbos_peer
from compare.case import Case
from compare.peer import Command, Peer, distributions, environment, locked

_KAFKA: Final = "https://docs.dbos.dev/python/tutorials/kafka-integration"
_STEPS: Final = "https://docs.dbos.dev/python/tutorials/step-tutorial"
_DATASOURCES: Final = "https://docs.dbos.dev/python/reference/datasources"
_FAILED: Final = "SELECT count(*) FROM dbos.workflow_status WHERE status = 'ERROR'"


class Dbos(Peer):
    """DBOS."""

    def __init__(self, way: str, settings: str) -> None:
        self.slug = f"dbos-{way}"
        self.name = f"DBOS, {way}"
        self.settings = settings
        self._way = way

    def version(self) -> str:
        return f"DBOS for Python {locked(dbos_peer.LOCK, 'dbos')}"

    def parts(self) -> int:
        return distributions(_python())

    def prepare(self, case: Case) -> None:
        case.site.stack.postgres.create_database(_database(case))

    def command(self, case: Case, number: int) -> Command:
        words: list[str | Path] = [
            _python(),
            "-m",
            "compare.dbos_app",
            case.servers,
            case.topic,
            self.group_id(case),
            case.table,
        ]
        system = case.url(_database(case), "postgresql+psycopg")
        return Command([*words, self._way], {"DBOS_DATABASE_URL": system, "EFFECTS_URL": case.url()})

    def kept(self, case: Case) -> int:
        with psycopg.connect(case.site.stack.postgres.url(_database(case))) as connection:
            try:
                row = connection.execute(_FAILED).fetchone()
            except psycopg.errors.UndefinedTable:
                return 0
        return int(row[0]) if row else 0


def _database(case: Case) -> str:
    return f"dbos_{case.table}"


@cache
def _python() -> Path:
    return environment("dbos", dbos_peer.LOCK)


DBOS_TRANSACTION: Final = Dbos(
    "transaction",
    f'`ordering="partition"` of the [consumer]({_KAFKA}), `kafka_queue_polling_interval_sec=0.02`, and '
    f"[`datasource.transaction`]({_DATASOURCES})",
)
DBOS_STEP: Final = Dbos(
    "step",
    f"the [consumer]({_KAFKA}) as it is by default, and a [step]({_STEPS}) with `retries_allowed=True` and "
    "`max_attempts=6`",
)
