"""Every address asks Airflow's auth manager: each one with each role."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace
from typing import get_args, get_type_hints
from uuid import UUID, uuid4

import pytest
from airflow.api_fastapi.app import init_auth_manager, purge_cached_app
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.models.dag import DagModel
from airflow.models.revoked_token import RevokedToken
from fastapi import FastAPI
from fastapi.routing import APIRoute
from httpx2 import Response
from psycopg import sql
from starlette.testclient import TestClient

from local_stack.stack import LocalStack
from support.executing import Executing
from support.finished_steps import add_step
from support.ingesting import partition_of, plan
from support.pages import OWN, StubViewer, ada, browser_of, form_token, listed_ids, served
from support.pages_scene import Scene, cancel_job, failed_run, first_batch, hold_key, stall_shard
from support.work_orders import rejected
from workorders.airflow import api_server
from workorders.airflow.api_server import DagAccessEntity
from workorders.audit import stored
from workorders.audit.findings import AuditReport, Check, Finding
from workorders.core import triggers
from workorders.core.attribution import Attribution
from workorders.core.bulk import jobs
from workorders.core.creation.work_orders import create_for
from workorders.core.definitions.trigger import Sequence
from workorders.core.history import work_orders
from workorders.core.history.filters import Filter
from workorders.core.items import Item
from workorders.core.postgres.connection import connect
from workorders.kafka.partitions import OffsetRange
from workorders.monitoring.api import make_router, read_samples
from workorders.pages.access import Right, current_viewer
from workorders.pages.app import make_app
from workorders.pages.site import Site
from workorders.pages.work_order import download, run_download

pytestmark = pytest.mark.integration

ROLES = ("viewer", "user", "op", "admin")
"""Of Airflow's simple auth manager. A viewer reads; the others change whatever a Dag right allows."""


@dataclass(frozen=True)
class Address:
    """One thing to ask of the pages, and the one right that it takes; `names` fills in what is in braces."""

    route: str
    path: str
    right: Right
    dag: str
    """The Dag to which it requires the right."""
    method: str = "GET"
    data: Mapping[str, str] = field(default_factory=dict)
    """Fields of the form, which a check after that of the right refuses, or which change nothing."""
    status: int = 200
    """The status for those who have the right."""

    def __str__(self) -> str:
        return f"{self.method} {self.path} {' '.join(self.data.values())}".strip()

    def ask(self, client: TestClient, names: Mapping[str, str], token: str = "") -> Response:
        """Ask for it, with the token of a form of a page."""
        data = {"csrf": token, **{name: value.format(**names) for name, value in self.data.items()}}
        path = f"/workorders{self.path.format(**names)}"
        return client.get(path) if self.method == "GET" else client.post(path, data=data)

    def refusal(self, names: Mapping[str, str]) -> str:
        """Return the words that name the right."""
        return f"This requires the right to {WORDS[self.right]} {self.dag.format(**names)}. "


WORDS = {
    Right.READ: "read Dag runs of",
    Right.READ_INPUT: "read XComs of",
    Right.READ_LOG: "read task logs of",
    Right.ACT: "create Dag runs of",
    Right.RELEASE: "change Dag runs of",
    Right.PURGE: "delete Dag runs of",
}
LISTS = ("/", "/work-orders", "/bulk", "/audit")
"""Pages for every user, with no more than the user may read."""
RUNS, INGEST, RELAY = "{workflow}_runs", "{trigger}_ingest", "workorders_outbox_0"
CONFIRM = "/bulk/new"
READS = (
    Address("/work-orders/{id_}", "/work-orders/{order}", Right.READ, RUNS),
    Address("/work-orders/{id_}/{part}", "/work-orders/{order}/body", Right.READ_INPUT, RUNS),
    Address(CONFIRM, f"{CONFIRM}?kind=export&workflow={{workflow}}", Right.READ_INPUT, RUNS),
    Address("/runs/{id_}", "/runs/{run}", Right.READ, RUNS),
    Address("/runs/{id_}/{part}", "/runs/{run}/log", Right.READ_LOG, RUNS),
    Address("/bulk/{number}", "/bulk/{job}", Right.READ, RUNS),
    Address("/kafka/{name}", "/kafka/{trigger}", Right.READ, INGEST),
    Address("/workflows/{name}", "/workflows/{workflow}", Right.READ, RUNS),
    Address("/dag-run", "/dag-run?dag_id={trigger}_ingest&run_id=batch_{batch}", Right.READ, INGEST),
    Address("/outbox", "/outbox", Right.READ, RELAY),
    Address("/outbox/holds/{number}", "/outbox/holds/{hold}", Right.READ, RELAY),
)
EXPORT = {"kind": "export", "reason": "a test", "query": "workflow={workflow}&state=lost"}
EXPORTS = (Address(CONFIRM, CONFIRM, Right.READ_INPUT, RUNS, "POST", EXPORT),)
"""Forms of users who may read inputs."""
CANCEL = {"kind": "cancel", "reason": "a test"}
DECISION = {"kind": "skip-lost", "topic": "{topic}", "partition": "0", "reason": "a test", "facts": "of another time"}
FORMS = (
    # A work order that has failed is not cancelled, and none is lost.
    Address(CONFIRM, CONFIRM, Right.ACT, RUNS, "POST", {**CANCEL, "selected": "{order}"}, 303),
    Address(CONFIRM, CONFIRM, Right.ACT, RUNS, "POST", {**CANCEL, "query": "workflow={workflow}&state=lost"}, 303),
    # It has finished.
    Address("/bulk/{number}/cancel", "/bulk/{job}/cancel", Right.ACT, RUNS, "POST", {}, 400),
    Address("/kafka/{name}/resolve", "/kafka/{trigger}/resolve", Right.ACT, INGEST, "POST", DECISION, 409),
    # There is none with this number.
    Address("/outbox/holds/{number}/release", "/outbox/holds/0/release", Right.RELEASE, RELAY, "POST", {}, 404),
    # The number of messages is not typed.
    Address("/outbox/holds/{number}/purge", "/outbox/holds/{hold}/purge", Right.PURGE, RELAY, "POST", {}, 422),
)
ACTS = (
    Address(CONFIRM, f"{CONFIRM}?kind=rerun&workflow={{workflow}}&state=failed", Right.ACT, RUNS),
    Address("/kafka/{name}/resolve", "/kafka/{trigger}/resolve?topic={topic}&partition=0", Right.ACT, INGEST),
    *FORMS,
)

each_role = pytest.mark.parametrize("role", ROLES)


@pytest.fixture(scope="module")
def names(scene: Scene, pages_site: Site) -> dict[str, str]:
    """What the addresses name: everything exists."""
    with pages_site.writing() as connection:
        order, run = failed_run(connection, scene.workflow)
        batch = first_batch(connection, scene.topic)
        job = cancel_job(connection, scene.workflow, state="finished", total=0)
        hold = hold_key(connection, scene.topic)
        connection.execute(
            "INSERT INTO workorders.run_results (run_id, log, log_truncated) VALUES (%s, 'no bed is free', false) "
            "ON CONFLICT DO NOTHING",
            [run],
        )
    return {
        "order": str(order),
        "run": str(run),
        "workflow": scene.workflow,
        "trigger": scene.stalled.definition.name,
        "topic": scene.topic,
        "batch": str(batch),
        "job": str(job),
        "hold": str(hold),
    }


@pytest.fixture(scope="module")
def login() -> Iterator[Callable[[str], str]]:
    """Returns a valid token of a user with a role of Airflow's simple auth manager, which reads its secret once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS", ",".join(f"{role}:{role}" for role in ROLES))
        patch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", uuid4().hex * 4)
        # The list of revoked tokens is in Airflow's database, which this test has none of.
        patch.setattr(RevokedToken, "is_revoked", lambda jti: False)
        purge_cached_app()
        manager = init_auth_manager()
        yield lambda role: manager.generate_jwt(SimpleAuthManagerUser(username=role, role=role))
        purge_cached_app()


@pytest.fixture
def app(pages_site: Site) -> FastAPI:
    """The pages with the real auth manager."""
    server = FastAPI()
    server.mount("/workorders", make_app(pages_site))
    return server


@pytest.fixture
def logged_in(app: FastAPI, login: Callable[[str], str]) -> Callable[[str], TestClient]:
    """Returns a browser with the login of a user with a role, whose name is that of the role."""
    return lambda role: browser_of(app, login(role))


def test_every_route_is_in_the_tables_of_this_test(pages_site: Site) -> None:
    routes = {
        (method, route.path)
        for route in make_app(pages_site).routes
        if isinstance(route, APIRoute)
        for method in route.methods
    }
    tables = READS + ACTS + EXPORTS
    assert routes == {("GET", path) for path in LISTS} | {(asked.method, asked.route) for asked in tables}


@pytest.mark.parametrize("asked", READS + ACTS + EXPORTS, ids=str)
def test_nobody_gets_anything_without_a_login(
    app: FastAPI, login: Callable[[str], str], names: dict[str, str], asked: Address
) -> None:
    answer = asked.ask(TestClient(app), names)
    assert answer.status_code == 401
    assert "Your session has ended" in answer.text
    # The answer repeats the path, with the names that the caller has written there.
    unknown = [word for word in scene_words(names) if word not in asked.path.format(**names)]
    assert [word for word in unknown if word in answer.text] == []


@pytest.mark.parametrize("path", LISTS)
def test_nobody_gets_a_list_without_a_login(app: FastAPI, login: Callable[[str], str], path: str) -> None:
    assert TestClient(app).get(f"/workorders{path}").status_code == 401


@pytest.mark.parametrize("token", ["x", "a.b.c"])
def test_a_login_that_is_no_token_gets_nothing(app: FastAPI, login: Callable[[str], str], token: str) -> None:
    assert TestClient(app, cookies={"_token": token}).get("/workorders/").status_code == 403


@each_role
@pytest.mark.parametrize("path", [*LISTS, *(asked.path for asked in READS)])
def test_every_role_reads(logged_in: Callable[[str], TestClient], names: dict[str, str], role: str, path: str) -> None:
    answer = logged_in(role).get(f"/workorders{path.format(**names)}")
    assert answer.status_code == 200, answer.text


@each_role
@pytest.mark.parametrize("asked", ACTS, ids=str)
def test_a_viewer_learns_which_right_an_action_takes_and_the_other_roles_have_it(
    logged_in: Callable[[str], TestClient], pages_site: Site, names: dict[str, str], role: str, asked: Address
) -> None:
    answer = asked.ask(logged_in(role), names, form_token(pages_site, role))
    if role == "viewer":
        assert (answer.status_code, asked.refusal(names) in answer.text) == (403, True), answer.text
    else:
        assert answer.status_code == asked.status, answer.text


@each_role
@pytest.mark.parametrize("asked", EXPORTS, ids=str)
def test_every_role_exports(
    logged_in: Callable[[str], TestClient], pages_site: Site, names: dict[str, str], role: str, asked: Address
) -> None:
    assert asked.ask(logged_in(role), names, form_token(pages_site, role)).status_code == asked.status


@pytest.mark.parametrize("asked", ACTS + EXPORTS, ids=str)
def test_whoever_may_not_read_a_dag_acts_on_nothing_of_it(
    pages_site: Site, names: dict[str, str], asked: Address
) -> None:
    dag = asked.dag.format(**names)
    viewer = ada(lambda right, dag_id: (right, dag_id) == (Right.READ, dag))
    answer = asked.ask(browser_of(served(pages_site, viewer)), names, form_token(pages_site, "ada"))
    assert answer.status_code == 403
    assert f"the right to read Dag runs of {dag}. " in answer.text
    assert "is asked for GET on RUN." in answer.text


@each_role
@pytest.mark.parametrize("asked", FORMS + EXPORTS, ids=str)
def test_nobody_changes_anything_without_a_token_of_a_page(
    logged_in: Callable[[str], TestClient], names: dict[str, str], role: str, asked: Address
) -> None:
    answer = asked.ask(logged_in(role), names)
    assert answer.status_code == 403
    assert "no token of this page" in answer.text


@pytest.mark.parametrize("asked", READS + ACTS + EXPORTS, ids=str)
def test_a_user_without_the_one_right_to_the_one_dag_is_refused(
    pages_site: Site, names: dict[str, str], asked: Address
) -> None:
    dag = asked.dag.format(**names)
    viewer = ada(lambda right, dag_id: (right, dag_id) == (asked.right, dag))
    answer = asked.ask(browser_of(served(pages_site, viewer)), names, form_token(pages_site, "ada"))
    assert answer.status_code == 403
    assert asked.refusal(names) in answer.text


@pytest.mark.parametrize("asked", READS + ACTS + EXPORTS, ids=str)
def test_a_user_who_may_read_the_dag_needs_the_one_right_alone(
    pages_site: Site, names: dict[str, str], asked: Address
) -> None:
    dag = asked.dag.format(**names)
    viewer = ada(lambda right, dag_id: dag_id != dag or right not in {Right.READ, asked.right})
    answer = asked.ask(browser_of(served(pages_site, viewer)), names, form_token(pages_site, "ada"))
    assert answer.status_code == asked.status, answer.text


def test_lists_show_only_what_the_user_may_read(pages_site: Site, names: dict[str, str], scene: Scene) -> None:
    client = TestClient(
        served(pages_site, ada(lambda right, dag_id: dag_id == "workorders_outbox_0" or scene.topic[:9] in dag_id))
    )
    for address in ("/workorders/", "/workorders/work-orders?since=all"):
        answer = client.get(address)
        assert answer.status_code == 200
        assert names["trigger"] not in answer.text
        assert scene.workflow not in answer.text


REPORT = AuditReport(
    trigger=None,
    ended_at=datetime(2026, 3, 1, tzinfo=UTC),
    seconds=1.5,
    partitions=1,
    partitions_left=0,
    ranges=1,
    messages=1,
    undecided=0,
    findings=(),
    findings_left=0,
    problems=(),
)


def test_an_audit_shows_only_findings_that_the_user_may_read(pages_site: Site, names: dict[str, str]) -> None:
    of_trigger = Finding(check=Check.LEDGER, what="It has moved.", action="Look.", trigger=names["trigger"], topic="t")
    of_workflow = Finding(check=Check.RUNS, what="It is alone.", action="Look.", workflow=names["workflow"])
    of_none = Finding(check=Check.PARTS, what="It is an orphan.", action="Look.")
    report = replace(REPORT, findings=(of_trigger, of_workflow, of_none), problems=("No answer.",))
    with pages_site.writing() as connection:
        stored.write_report(connection, report)
    trigger, workflow = INGEST.format(**names), RUNS.format(**names)
    for hidden, shown in (
        ((), {"moved", "alone", "orphan", "answer"}),
        ((trigger,), {"alone", "orphan", "answer"}),
        ((workflow,), {"moved"}),
        ((trigger, workflow), set()),
    ):
        viewer = ada(partial(_is_of, hidden))
        text = browser_of(served(pages_site, viewer)).get("/workorders/audit").text
        assert {word for word in ("moved", "alone", "orphan", "answer") if f"{word}." in text} == shown


def _is_of(hidden: Collection[str], _: Right, dag_id: str) -> bool:
    return dag_id in hidden


def test_a_trigger_that_changed_its_workflow_shows_no_work_order_of_the_old_one(pages_site: Site) -> None:
    name = f"moved_{uuid4().hex[:9]}"
    before, after = f"{name}_before", f"{name}_after"
    with pages_site.writing() as connection:
        trigger = triggers.register(connection, name=name, type_="manual", workflow=before, definition={})
        create_for(connection, trigger, [Item(None, None, b"{}", b"{}")])
        moved = triggers.register(connection, name=name, type_="manual", workflow=after, definition={})
        create_for(connection, moved, [Item(None, None, b"{}", b"{}")])
        connection.commit()
    client = TestClient(served(pages_site, ada(lambda right, dag_id: before in dag_id)))
    found = client.get(f"/workorders/work-orders?trigger={name}")
    assert (found.status_code, len(listed_ids(found.text))) == (200, 1)
    assert client.get(f"/workorders/bulk/new?kind=export&trigger={name}").status_code == 403
    data = {"kind": "export", "query": f"trigger={name}", "reason": "x", "csrf": form_token(pages_site, "ada")}
    assert client.post("/workorders/bulk/new", data=data, headers=OWN).status_code == 403


@pytest.mark.parametrize("words", ["text=Jane", "ordering_key=PAT-1"])
@pytest.mark.parametrize("page", ["work-orders?", "bulk/new?kind=rerun&"])
def test_a_user_who_may_not_read_inputs_learns_nothing_of_them_by_searching(
    pages_site: Site, scene: Scene, page: str, words: str
) -> None:
    without_inputs = TestClient(served(pages_site, ada(lambda right, dag_id: right is Right.READ_INPUT)))
    address = f"/workorders/{page}workflow={scene.workflow}"
    assert without_inputs.get(address).status_code == 200
    refused = without_inputs.get(f"{address}&{words}")
    assert refused.status_code == 403
    assert "read XComs of" in refused.text
    assert TestClient(served(pages_site)).get(f"{address}&{words}").status_code == 200


def test_a_job_shows_what_it_searched_for_in_inputs_only_to_those_who_may_read_them(
    pages_site: Site, scene: Scene
) -> None:
    with pages_site.writing() as connection:
        wanted = Filter(workflow=scene.workflow, text="Hedwig")
        job = jobs.create_job(connection, "cancel", wanted, Attribution("ada", "a test"))
        connection.commit()
    address = f"/workorders/bulk/{job.id}"
    assert "Hedwig" in TestClient(served(pages_site)).get(address).text
    without_inputs = TestClient(served(pages_site, ada(lambda right, dag_id: right is Right.READ_INPUT)))
    assert without_inputs.get(address).status_code == 200
    assert "Hedwig" not in without_inputs.get(address).text


def test_a_job_whose_only_work_order_was_deleted_is_not_everybodys(pages_site: Site, scene: Scene) -> None:
    with pages_site.writing() as connection:
        (order, *_) = work_orders.list_work_orders(connection, Filter(workflow=scene.workflow), limit=1)
        job = jobs.create_job(connection, "cancel", Filter(selected=(order.id,)), Attribution("ada", "a test"))
        connection.execute(
            "UPDATE workorders.bulk_jobs SET filter = jsonb_set(filter, '{selected,0}', to_jsonb(%s)) WHERE id = %s",
            [uuid4(), job.id],
        )
        connection.commit()
    nobody = TestClient(served(pages_site, ada(lambda right, dag_id: True)))
    assert nobody.get(f"/workorders/bulk/{job.id}").status_code == 403


def test_results_of_steps_are_shown_only_to_those_who_may_read_outputs(
    pages_site: Site, names: dict[str, str], scene: Scene
) -> None:
    with pages_site.writing() as connection:
        add_step(connection, UUID(names["run"]), "label", "L-4711")
    for viewer, shown in ((ada(), True), (ada(lambda right, dag_id: right is Right.READ_INPUT), False)):
        for address in (f"work-orders/{names['order']}", f"runs/{names['run']}"):
            page = TestClient(served(pages_site, viewer)).get(f"/workorders/{address}").text
            assert (">label</th>" in page, "L-4711" in page) == (True, shown)


NUMBERED = Sequence.model_validate({"key": "body:/k", "number": "body:/n"}).model_dump(mode="json")
MARKED: Mapping[str, tuple[str, str]] = {
    "input": ("dataclips SET body = jsonb_build_object('a', {mark}::text)", "id = {order}"),
    "request": ("dataclips SET request = jsonb_build_object('a', {mark}::text)", "id = {order}"),
    "error": ("runs SET error = {mark}", "id = {run}"),
    "log": ("run_results SET log = {mark}", "run_id = {run}"),
    "output": ("run_results SET output = to_jsonb({mark}::text)", "run_id = {run}"),
    "step": ("steps SET name = {mark}", "run_id = {run} AND name = 'marked'"),
    "result": ("steps SET result = to_jsonb({mark}::text)", "run_id = {run}"),
    "rejection": ("rejections SET detail = {mark}", "work_order_id = {rejected}"),
    "raw": ("rejections SET raw = convert_to({mark}, 'UTF8')", "work_order_id = {rejected}"),
    "rejected": ("rejections SET request = jsonb_build_object('a', {mark}::text)", "work_order_id = {rejected}"),
    "sequence": ("sequences SET name = {mark}", "trigger_id = {numbered}"),
    "key": ("outbox_holds SET key = convert_to({mark}, 'UTF8')", "id = {hold}"),
    "hold": ("outbox_holds SET reason = {mark}", "id = {hold}"),
    "shard": ("outbox_shards SET last_error = {mark} || ' [WO-OUTBOX-CONTRADICTION]'", "shard = 0"),
    "stall": ("kafka_ranges SET last_error = {mark}", "batch_id = {batch}"),
    "ledger": ("kafka_ledger SET last_error = {mark}, status = 'stalled'", "topic = {topic}"),
    "job": ("bulk_jobs SET error = {mark}, state = 'failed'", "id = {job}"),
    "audit": ("last_audit SET report = jsonb_set(report, '{{problems}}', jsonb_build_array({mark}::text))", "true"),
}
"""What a message or a function can fill, or an error that may quote it: each with its own mark."""
INPUTS = {"input", "request", "output", "result", "raw", "rejected", "sequence"}
"""Those for which the right to read logs is not enough."""
UNSHOWN = {
    f"{what}-{column}": (f"outbox_messages SET {column} = {value}", f"topic = {{topic}} AND {where}")
    for what, where in (("waiting", "hold_id IS NULL"), ("held", "hold_id IS NOT NULL"))
    for column, value in (
        ("key", "convert_to({mark}, 'UTF8')"),
        ("value", "convert_to({mark}, 'UTF8')"),
        ("headers", "jsonb_build_object('a', {mark}::text)"),
    )
}
"""The same, on no page."""
OF_PEOPLE = """
name definition type kind state status code error_type action details skipped options filter actor account reason topic
topic_id from_topic_id to_topic_id cluster_id subscription checkpoint_topic checkpoint_topic_id checkpoint_key
transactional_id_prefix owner path connection
"""
"""Columns of the package's own words, and of names and reasons that people give."""
MARK = re.compile(r"MARK-([\w-]+)")


@pytest.fixture
def marked(stack: LocalStack, names: dict[str, str], name: str) -> Iterator[dict[str, str]]:
    """The names of what is marked, next to those of the scene."""
    work = Executing(stack.database_url, name)
    work.create([{"do": "fail", "word": "?"}])
    work.worker().work()
    with connect(stack.database_url) as connection:
        order, run = failed_run(connection, name)
        add_step(connection, run, "marked", "")
        connection.execute(
            "INSERT INTO workorders.run_results VALUES (%s, '1', '?', false) ON CONFLICT DO NOTHING", [run]
        )
        numbered = triggers.register(
            connection, name=f"{name}-numbered", type_="manual", workflow=name, definition={"sequence": NUMBERED}
        )
        create_for(connection, numbered, [rejected(None, None), Item(None, None, b"{}", b'{"k": "a", "n": 2}')])
        by_state = {row.state: str(row.id) for row in work_orders.list_work_orders(connection, Filter(workflow=name))}
        kafka = triggers.register(
            connection, name=f"{name}-kafka", type_="kafka", workflow=name, definition={"topics": [name]}
        )
        values = {
            **names,
            "workflow": name,
            "topic": name,
            "trigger": kafka.name,
            "batch": str(plan(connection, kafka, OffsetRange(partition_of(name), 0, 10))),
            "order": str(order),
            "run": str(run),
            "hold": str(hold_key(connection, name)),
            "job": str(cancel_job(connection, name, state="failed", total=1, error="?")),
            "rejected": by_state["rejected"],
            "parked": by_state["parked"],
        }
        stored.write_report(connection, REPORT)
        literals = {key: sql.Literal(value) for key, value in values.items()} | {"numbered": sql.Literal(numbered.id)}
        connection.execute(
            "INSERT INTO workorders.outbox_messages (event_id, bucket, topic) VALUES (gen_random_uuid(), 0, %s)", [name]
        )
        connection.execute(
            "INSERT INTO workorders.outbox_messages (hold_id, event_id, bucket, topic) "
            "VALUES (%s, gen_random_uuid(), -1, %s)",
            [values["hold"], name],
        )
        for field_, (change, where) in {**MARKED, **UNSHOWN}.items():
            text = f"UPDATE workorders.{change} WHERE {where}"
            update = sql.SQL(text).format(mark=sql.Literal(f"MARK-{field_}"), **literals)
            assert connection.execute(update).rowcount == 1, field_
        connection.commit()
        yield values
        stall_shard(connection)
        connection.execute("DELETE FROM workorders.bulk_jobs WHERE id = %s", [values["job"]])
        connection.execute("UPDATE workorders.kafka_ledger SET status = 'active' WHERE topic = %s", [name])
        for table in ("messages", "holds"):
            connection.execute(f"DELETE FROM workorders.outbox_{table} WHERE topic = %s", [name])
        connection.commit()


def test_every_text_of_the_database_has_a_mark_or_is_of_people(pages_site: Site) -> None:
    with pages_site.reading() as connection:
        columns = connection.execute(
            "SELECT table_name, column_name FROM information_schema.columns "
            "WHERE table_schema = 'workorders' AND data_type IN ('text', 'json', 'jsonb', 'bytea') "
            "AND table_name IN (SELECT tablename FROM pg_tables WHERE schemaname = 'workorders')"
        ).fetchall()
    changes = [change.split() for change, _ in {**MARKED, **UNSHOWN}.values()]
    marked = {(table, column) for table, _, column, *_ in changes}
    assert marked <= set(columns)
    assert [one for one in columns if one not in marked and one[1] not in OF_PEOPLE.split()] == []


def test_a_user_who_may_read_neither_inputs_nor_logs_sees_nothing_that_a_message_or_a_function_has_filled(
    pages_site: Site, marked: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKORDERS_METRICS_TOKEN", "s3cret")
    whole = Address(CONFIRM, CONFIRM, Right.READ_INPUT, RUNS, "POST", {**EXPORT, "query": "workflow={workflow}"})
    paths = (
        "/work-orders?since=all&workflow={workflow}",
        "/work-orders/{rejected}",
        "/work-orders/{parked}",
        *(f"/work-orders/{{{state}}}/{part}" for state in ("order", "rejected") for part in parts_of(download)),
        *(f"/runs/{{run}}/{part}" for part in parts_of(run_download)),
    )
    # That form would end the job whose error has a mark.
    asks = [asked for asked in (*READS, *ACTS, whole) if asked.route != "/bulk/{number}/cancel"]
    addresses = [f"/workorders{path.format(**marked)}" for path in (*LISTS, *paths)] + ["/metrics"]

    def marks_seen_by(viewer: StubViewer) -> set[str]:
        app = served(pages_site, viewer)
        app.include_router(make_router(lambda: read_samples(pages_site.database_url)))
        client = browser_of(app)
        client.headers["Authorization"] = "Bearer s3cret"
        answers: list[Response] = []
        for headers in ({}, {"hx-request": "true"}):
            client.headers.update(headers)
            answers += [client.get(address) for address in addresses]
            answers += [asked.ask(client, marked, form_token(pages_site, "ada")) for asked in asks]
        assert {answer.status_code for answer in answers} <= {200, 303, 400, 403, 404, 409, 422, 503}
        return {mark for answer in answers for mark in MARK.findall(f"{answer.text} {answer.headers}")}

    assert marks_seen_by(ada()) == set(MARKED)
    assert marks_seen_by(ada(lambda right, _: right in {Right.READ_INPUT, Right.READ_LOG})) == set()
    assert marks_seen_by(ada(lambda right, _: right is Right.READ_INPUT)) == set(MARKED) - INPUTS
    assert marks_seen_by(ada(lambda right, _: right is Right.READ_LOG)) == set(MARKED) - {"log"}


def parts_of(route: Callable[..., object]) -> tuple[str, ...]:
    """Return the words by which a route names what it sends."""
    return get_args(get_type_hints(route)["part"])


def test_with_teams_no_user_has_a_right_to_a_dag_that_airflow_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its team is unknown, and an auth manager that gets no team compares none."""
    monkeypatch.setattr(api_server, "get_auth_manager", lambda: SimpleNamespace(is_authorized_dag=lambda **_: True))
    dags = {"known": SimpleNamespace(dag_id="known")}
    monkeypatch.setattr(DagModel, "get_current", dags.get)
    monkeypatch.setattr(DagModel, "get_team_name", lambda dag_id: "blue")
    for has_teams, answers in ((True, [True, False]), (False, [True, True])):
        monkeypatch.setenv("AIRFLOW__CORE__MULTI_TEAM", str(has_teams))
        found = [api_server.has_right(ada().user, "GET", DagAccessEntity.RUN, dag) for dag in ("known", "gone")]
        assert found == answers


def test_a_work_order_names_its_batch_only_to_those_who_may_read_the_trigger(
    pages_site: Site, names: dict[str, str], scene: Scene
) -> None:
    def batch_of(client: TestClient) -> bool:
        listed = client.get(f"/workorders/work-orders?trigger={names['trigger']}&since=all&to_position=5").text
        order = listed_ids(listed)[0]
        return "Batch" in client.get(f"/workorders/work-orders/{order}").text

    assert batch_of(TestClient(served(pages_site, ada())))
    assert not batch_of(TestClient(served(pages_site, ada(lambda right, dag_id: dag_id.endswith("_ingest")))))


def test_the_viewer_is_asked_for_at_every_route(pages_site: Site) -> None:
    asked = []
    app = make_app(pages_site)
    app.dependency_overrides[current_viewer] = lambda: asked.append(1) or StubViewer(ada().user)  # type: ignore[func-returns-value]
    for route in app.routes:
        if isinstance(route, APIRoute):
            before = len(asked)
            for method in route.methods:
                TestClient(app, raise_server_exceptions=False).request(method, route.path)
            assert len(asked) > before, route.path


def scene_words(names: dict[str, str]) -> set[str]:
    return {names["workflow"], names["trigger"], names["topic"]}
