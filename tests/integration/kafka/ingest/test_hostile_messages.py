"""Whatever a producer sends goes all the way, or is rejected, and its innocent neighbors never notice."""

import json
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from local_stack.stack import LocalStack
from support.databases import own_database
from support.definitions import define
from support.hostile import records
from workorders.core import triggers
from workorders.core import workflows as workflows_
from workorders.core.attribution import Attribution
from workorders.core.bulk import jobs, runner
from workorders.core.creation.work_orders import create_for
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.history import runs as run_history
from workorders.core.history import search_index, work_orders
from workorders.core.history.filters import Filter
from workorders.core.history.runs import runs_of
from workorders.core.items import Item
from workorders.core.maintenance import retention
from workorders.core.postgres.connection import Connection, connect
from workorders.core.runs import claiming, lifecycle
from workorders.core.runs.claiming import ClaimedRun
from workorders.core.runs.lifecycle import RunResult
from workorders.core.triggers import Trigger
from workorders.core.worker import json_values
from workorders.core.worker.exceptions import InputUnreadableError
from workorders.core.worker.run_results import without_input
from workorders.core.workers import add_worker
from workorders.core.workflows import Workflow
from workorders.kafka.ingest.record_mapping import RecordMapping
from workorders.kafka.partitions import Record

pytestmark = pytest.mark.integration

ALL_THE_WAY = settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
MEBIBYTE = 1024 * 1024
MAPPING = RecordMapping(max_message_bytes=MEBIBYTE)
KEPT = {"delete_after": "2d", "erase_after": "1d"}
IDEMPOTENCY = {"key": "body:/id", "window": "1h"}
SEQUENCE = {"key": "body:/id", "number": "body:/n", "start": 1}


@pytest.fixture(scope="module")
def database_url(stack: LocalStack) -> str:
    """A separate database, because search and retention look at all work orders."""
    return own_database(stack, "hostile")


@pytest.fixture(scope="module", autouse=True)
def deep_recursion() -> Iterator[None]:
    """Let Python read back JSON that is as deep as a message may be."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)
    yield
    sys.setrecursionlimit(before)


def innocent(place: int) -> bytes:
    return b'{"a": [1e-9, 2.5], "n": 1, "id": "innocent-%d", "note": "nearby"}' % place


def surrounded(hostile: Sequence[Record]) -> list[Item]:
    """Return the items of hostile records, each between two innocent ones."""
    plain = Record("hostile", 0, 0, b"key", None, 0, 0)
    sent: list[Record] = []
    for record in hostile:
        sent += [plain._replace(value=innocent(len(sent))), record]
    sent.append(plain._replace(value=innocent(len(sent))))
    return [MAPPING.map_record(record._replace(offset=offset), "s") for offset, record in enumerate(sent)]


class Scene:
    """A workflow with two triggers that have rules, and one that has none."""

    def __init__(self, connection: Connection, ordering_key: str | None) -> None:
        self.connection = connection
        self.name = f"hostile-{uuid4().hex[:12]}"
        fields = {
            "name": self.name,
            "callable": "json:dumps",
            "ordering_key": ordering_key,
            "retention": {"delete_after": "2d", "erase_after": "1d"},
        }
        self.workflow: Workflow = workflows_.register(
            connection, WorkflowDefinition.model_validate({key: field for key, field in fields.items() if field})
        )
        self.triggers = [
            self._trigger("plain"),
            self._trigger("keyed", idempotency=IDEMPOTENCY),
            self._trigger("numbered", sequence=SEQUENCE),
        ]
        connection.commit()

    def _trigger(self, kind: str, **fields: object) -> Trigger:
        definition = define(f"{self.name}-{kind}", workflow=self.name, max_message_bytes=MEBIBYTE, **fields)
        return triggers.register(
            self.connection,
            name=definition.name,
            type_="kafka",
            workflow=self.name,
            definition=definition.model_dump(mode="json"),
        )

    def ids(self) -> list[UUID]:
        rows = self.connection.execute(
            "SELECT id FROM workorders.work_orders WHERE workflow_id = %s ORDER BY id", (self.workflow.id,)
        )
        return [row[0] for row in rows]

    def create(self, items: Sequence[Item], *, fresh: bool) -> None:
        for trigger in self.triggers:
            created = create_for(self.connection, trigger, items, fresh=fresh)
            assert created.created + created.rejected + created.existing == len(items)
        self.connection.commit()

    def run_everything(self) -> None:
        """Claim and finish until nothing waits, as a worker does it."""
        while True:
            worker_id = add_worker(self.connection, self.workflow)
            claimed = claiming.claim(self.connection, self.workflow, limit=10, worker_id=worker_id)
            self.connection.commit()
            if not claimed:
                return
            owned = lifecycle.start(self.connection, worker_id, [run.run_id for run in claimed])
            assert len(owned) == len(claimed)
            finished = lifecycle.finish(self.connection, worker_id, [echo(run) for run in claimed])
            assert len(finished) == len(claimed)
            self.connection.commit()

    def show_everything(self) -> None:
        """Look at each work order and each run; what is shown as JSON is JSON."""
        listed = work_orders.list_work_orders(self.connection, Filter(workflow=self.name), limit=1_000)
        assert sorted(row.id for row in listed) == self.ids()
        for id_ in self.ids():
            found = work_orders.get_work_order(self.connection, id_)
            shown = [found.body, found.request]
            shown += [run_history.get_run(self.connection, run.id).output for run in runs_of(self.connection, id_)]
            for text in shown:
                assert text is None or json.loads(text, parse_int=str) is not None

    def search_everything(self) -> None:
        self.connection.commit()
        while search_index.index_new(self.connection, margin=timedelta(0)):
            pass
        found = work_orders.list_work_orders(
            self.connection, Filter(workflow=self.name, text="nearby innocent"), limit=1_000
        )
        assert {row.id for row in found} >= {row[0] for row in self.innocents()}

    def export_everything(self) -> None:
        self.connection.commit()
        lines = b"".join(work_orders.export_parts(self.connection, Filter(workflow=self.name))).decode()
        assert len([json.loads(line, parse_int=str) for line in lines.split("\n")[:-1]]) == len(self.ids())

    def rerun_everything(self) -> None:
        """Ask for another run of each; those that were rejected are validated again."""
        before = self.states()
        assert runner.run_job(self.connection, self._rerun_job()).state == "finished"
        self.run_everything()
        assert self.states() == before

    def delete_everything(self) -> None:
        self.connection.commit()
        for days in (1.5, 3.0):
            retention.delete_expired(
                self.connection, now=datetime.now(UTC) + timedelta(days=days), pause=lambda _: None
            )
        assert self.ids() == []

    def states(self) -> list[tuple[UUID, str, str | None]]:
        return self.connection.execute(
            """
            SELECT id, state::text, code
            FROM workorders.work_orders LEFT JOIN workorders.rejections ON work_order_id = id
            WHERE workflow_id = %s ORDER BY id
            """,
            (self.workflow.id,),
        ).fetchall()

    def innocents(self) -> list[tuple[UUID, str, str]]:
        """Return id, state and body of each innocent that no rule has rejected."""
        return self.connection.execute(
            """
            SELECT id, state::text, body ->> 'id' FROM workorders.work_orders JOIN workorders.dataclips USING (id)
            WHERE workflow_id = %s AND position %% 2 = 0 ORDER BY id
            """,
            (self.workflow.id,),
        ).fetchall()

    def _rerun_job(self) -> int:
        job = jobs.create_job(self.connection, "rerun", Filter(workflow=self.name), Attribution("ada", "a test"))
        self.connection.commit()
        return job.id


def echo(run: ClaimedRun) -> RunResult:
    """Return the end of a run that gives back its input."""
    if run.body is None:
        return without_input(run)
    try:
        output = json_values.serialize_output(json_values.loads(run.body), 32 * MEBIBYTE)
    except InputUnreadableError as error:
        return RunResult(run_id=run.run_id, state="exception", error=str(error), may_retry=False)
    return RunResult(run_id=run.run_id, state="success", output=output, log="a line")


def sent(value: bytes) -> list[Record]:
    return [Record("hostile", 0, 0, None, value, 0, 0)]


@ALL_THE_WAY
@example(hostile=sent(b'{"id":"x","a":[' + b",".join([b"1e-9999"] * 120_000) + b"]}"), ordering_key=None)
@example(hostile=sent(b'{"id":1e-400,"a":[' + b",".join([b"1e-400"] * 2_621) + b"]}"), ordering_key="key")
@example(hostile=sent(b'{"a":[' + b",".join([b"1e308"] * 170_000) + b"]}"), ordering_key=None)
@given(hostile=st.lists(records(), min_size=1, max_size=6), ordering_key=st.sampled_from([None, "key"]))
def test_whatever_is_sent_its_neighbors_come_through(
    database_url: str, hostile: list[Record], ordering_key: str | None
) -> None:
    items = surrounded(hostile)
    with connect(database_url, application_name="test") as connection:
        scene = Scene(connection, ordering_key)
        scene.create(items, fresh=True)
        # Again at other places: the rules turn all away that came before.
        scene.create([item._replace(position=offset) for offset, item in enumerate(items, 2 * len(items))], fresh=False)
        scene.run_everything()
        innocents = scene.innocents()
        assert len(innocents) == 4 * (len(hostile) + 1)
        assert {state for _, state, _ in innocents} == {"success"}
        scene.search_everything()
        scene.show_everything()
        scene.export_everything()
        scene.rerun_everything()
        assert scene.innocents() == innocents
        scene.delete_everything()
