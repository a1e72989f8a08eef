"""Every address asks Airflow's auth manager: each one with each role."""

from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest
from airflow.api_fastapi.app import init_auth_manager, purge_cached_app
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.models.revoked_token import RevokedToken
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.testclient import TestClient

from support.pages import StubViewer, ada, form_token, served
from support.pages_scene import Scene
from workorders.pages.access import Right, current_viewer
from workorders.pages.app import make_app
from workorders.pages.site import Site

pytestmark = pytest.mark.integration

ROLES = ("viewer", "user", "op", "admin")
READS = {
    "/": "/",
    "/work-orders": "/work-orders",
    "/work-orders/{id_}": "/work-orders/{order}",
    "/work-orders/{id_}/{part}": "/work-orders/{order}/body",
    "/work-orders/export": "/work-orders/export?workflow={workflow}",
    "/runs/{id_}": "/runs/{run}",
    "/runs/{id_}/{part}": "/runs/{run}/log",
    "/jobs": "/jobs",
    "/jobs/{number}": "/jobs/{job}",
    "/kafka/{name}": "/kafka/{trigger}",
    "/workflows/{name}": "/workflows/{workflow}",
    "/dag-run": "/dag-run?dag_id={trigger}_ingest&run_id=batch_{batch}",
    "/outbox": "/outbox",
    "/outbox/holds/{number}": "/outbox/holds/{hold}",
}
"""By route, an address of it that a viewer may read."""
ACTS = {
    ("GET", "/work-orders/confirm"): "/work-orders/confirm?kind=rerun&workflow={workflow}&state=failed",
    ("GET", "/kafka/{name}/resolve"): "/kafka/{trigger}/resolve?topic={topic}&partition=0",
    ("POST", "/work-orders/apply"): "/work-orders/apply",
    ("POST", "/jobs/{number}/cancel"): "/jobs/{job}/cancel",
    ("POST", "/kafka/{name}/resolve"): "/kafka/{trigger}/resolve",
    ("POST", "/outbox/holds/{number}/release"): "/outbox/holds/{hold}/release",
    ("POST", "/outbox/holds/{number}/purge"): "/outbox/holds/{hold}/purge",
}
"""By method and route, an address that takes the right to act."""
OPEN = {"/static/{version}/{name}"}
"""Files that hold nothing of anybody."""
EVERYTHING = [("GET", address) for address in READS.values()] + [
    (method, address) for (method, _), address in ACTS.items()
]


@pytest.fixture(scope="module")
def names(scene: Scene, pages_site: Site) -> dict[str, str]:
    """What the addresses name."""
    with pages_site.writing() as connection:
        row = connection.execute(
            """
            SELECT work_orders.id, runs.id
            FROM workorders.work_orders
            JOIN workorders.workflows ON workflows.id = work_orders.workflow_id
            JOIN workorders.runs ON runs.work_order_id = work_orders.id
            WHERE workflows.name = %s AND work_orders.state = 'failed'
            ORDER BY work_orders.id LIMIT 1
            """,
            [scene.workflow],
        ).fetchone()
        assert row is not None
        batch = connection.execute(
            "SELECT min(batch_id) FROM workorders.kafka_ranges WHERE topic = %s", [scene.topic]
        ).fetchone()
        job = connection.execute(
            "INSERT INTO workorders.bulk_jobs (kind, filter, options, actor, reason, total) VALUES "
            "('cancel', jsonb_build_object('workflow', %s::text), '{}', 'ada', 'a test', 0) RETURNING id",
            [scene.workflow],
        ).fetchone()
        hold = connection.execute(
            "INSERT INTO workorders.outbox_holds (kind, topic, bucket, key, reason) "
            "VALUES ('key', %s, 0, 'k', 'too large') RETURNING id",
            [scene.topic],
        ).fetchone()
    assert batch is not None
    assert job is not None
    assert hold is not None
    return {
        "order": str(row[0]),
        "run": str(row[1]),
        "workflow": scene.workflow,
        "trigger": scene.stalled.definition.name,
        "topic": scene.topic,
        "batch": str(batch[0]),
        "job": str(job[0]),
        "hold": str(hold[0]),
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


def test_every_route_is_in_the_tables_of_this_test(pages_site: Site) -> None:
    routes = {
        (method, route.path)
        for route in make_app(pages_site).routes
        if isinstance(route, APIRoute) and route.path not in OPEN
        for method in route.methods
    }
    assert routes == {("GET", path) for path in READS} | set(ACTS)


@pytest.mark.parametrize(("method", "address"), EVERYTHING)
def test_nobody_gets_anything_without_a_login(
    app: FastAPI, login: Callable[[str], str], names: dict[str, str], method: str, address: str
) -> None:
    answer = TestClient(app).request(method, f"/workorders{address.format(**names)}")
    assert answer.status_code == 401
    assert "Your session has ended" in answer.text
    assert scene_words(names) & set(answer.text.split()) == set()


@pytest.mark.parametrize("token", ["x", "a.b.c"])
def test_a_login_that_is_no_token_gets_nothing(app: FastAPI, login: Callable[[str], str], token: str) -> None:
    assert TestClient(app, cookies={"_token": token}).get("/workorders/").status_code == 403


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("address", READS.values())
def test_every_role_reads(
    app: FastAPI, login: Callable[[str], str], names: dict[str, str], role: str, address: str
) -> None:
    client = TestClient(app, cookies={"_token": login(role)})
    answer = client.get(f"/workorders{address.format(**names)}")
    # A run without a log, or a wiped input, is not found; nobody is refused.
    assert answer.status_code in {200, 404}, answer.text


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("act", ACTS, ids=" ".join)
def test_a_viewer_decides_about_nothing_and_nobody_changes_anything_without_a_token_of_a_page(
    app: FastAPI, login: Callable[[str], str], names: dict[str, str], role: str, act: tuple[str, str]
) -> None:
    client = TestClient(app, cookies={"_token": login(role)}, headers={"sec-fetch-site": "same-origin"})
    address = f"/workorders{ACTS[act].format(**names)}"
    if act[0] == "GET":
        assert client.get(address).status_code == (403 if role == "viewer" else 200)
        return
    refused = client.post(address, data=posted(names, act[1]))
    assert refused.status_code == 403
    assert "no token of this page" in refused.text


@pytest.mark.parametrize("route", [route for method, route in ACTS if method == "POST"])
def test_a_user_without_the_right_changes_nothing_even_with_a_token(
    pages_site: Site, names: dict[str, str], route: str
) -> None:
    def refused(right: Right, dag_id: str) -> bool:
        return right in {Right.ACT, Right.RELEASE, Right.PURGE}

    client = TestClient(served(pages_site, ada(refused)), headers={"sec-fetch-site": "same-origin"})
    data = {**posted(names, route), "csrf": form_token(pages_site, "ada")}
    answer = client.post(f"/workorders{ACTS['POST', route].format(**names)}", data=data)
    assert answer.status_code == 403
    assert "This takes the right to" in answer.text


@pytest.mark.parametrize("address", [address for address in READS.values() if "{" in address])
def test_a_user_without_the_dag_reads_nothing_of_it(pages_site: Site, names: dict[str, str], address: str) -> None:
    client = TestClient(served(pages_site, ada(lambda right, dag_id: True)))
    answer = client.get(f"/workorders{address.format(**names)}")
    assert answer.status_code == 403
    assert "This takes the right to" in answer.text


def test_lists_show_only_what_the_user_may_read(pages_site: Site, names: dict[str, str], scene: Scene) -> None:
    client = TestClient(
        served(pages_site, ada(lambda right, dag_id: dag_id == "outbox_relay" or scene.topic[:9] in dag_id))
    )
    for address in ("/workorders/", "/workorders/work-orders?since=all"):
        answer = client.get(address)
        assert answer.status_code == 200
        assert names["trigger"] not in answer.text
        assert scene.workflow not in answer.text


def test_the_viewer_is_asked_for_at_every_route(pages_site: Site) -> None:
    asked = []
    app = make_app(pages_site)
    app.dependency_overrides[current_viewer] = lambda: asked.append(1) or StubViewer(ada().user)  # type: ignore[func-returns-value]
    for route in app.routes:
        if isinstance(route, APIRoute) and route.path not in OPEN:
            before = len(asked)
            for method in route.methods:
                TestClient(app, raise_server_exceptions=False).request(method, route.path)
            assert len(asked) > before, route.path


def posted(names: dict[str, str], route: str) -> dict[str, str]:
    return {
        "kind": "skip-lost" if "kafka" in route else "rerun",
        "query": f"workflow={names['workflow']}&state=failed",
        "reason": "a test",
        "topic": names["topic"],
        "partition": "0",
        "facts": "[]",
        "typed": "0",
    }


def scene_words(names: dict[str, str]) -> set[str]:
    return {names["workflow"], names["trigger"], names["topic"]}
