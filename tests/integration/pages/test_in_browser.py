"""What a person does in a real Chromium: see why something is late, and repair it."""

import re
from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Route, expect

from local_stack.stack import LocalStack
from support.accessibility import unreachable, violations
from support.browser import browser_page, running_browser, take_picture
from support.executing import Executing
from support.ingesting import partition_of, plan
from support.pages import ada, running, served, site
from support.pages_scene import Scene, cancel_job, failed_run, hold_key, make_scene, stall_shard
from workorders import dag_ids
from workorders.core import triggers
from workorders.core.postgres.connection import connect
from workorders.core.runs import claiming, lifecycle
from workorders.core.runs.lifecycle import RunResult
from workorders.core.workers import add_worker
from workorders.kafka.partitions import OffsetRange

pytestmark = pytest.mark.integration

_PREFIX = "clinic-"
"""The beginning of every name of the scene."""
_HIDE = "Object.defineProperty(document, 'hidden', {get: () => %s, configurable: true});"
_FRAMED, _NARROW, _WIDE = 288, 360, 1280
"""Widths of windows in CSS pixels. Of a window of 360, Airflow leaves 288 beside its menu."""
_PROBLEM = '<section class="problem"><h1>Busy</h1><p>The database is tired. Nothing was changed.</p></section>'
"""A page that answers instead of the one that was asked for."""
_UPDATE_NOW = "htmx.trigger(document.body, 'workorders:poll')"
_UPDATE_OFTEN = "setInterval(() => window.htmx?.trigger(document.body, 'workorders:poll'), 2000)"
_STOP_UPDATES = "document.querySelectorAll('#updates').forEach((box) => (box.checked = false))"
_VISIBILITY_CHANGES = "document.dispatchEvent(new Event('visibilitychange'))"


@pytest.fixture(scope="module")
def scene(stack: LocalStack) -> Scene:
    """A stall, failed work orders, and an input that is made to break pages."""
    return make_scene(stack, _PREFIX)


@pytest.fixture(scope="module")
def paths(stack: LocalStack, scene: Scene) -> Iterator[dict[str, str]]:
    """The path of one page of each kind, by the name of its kind; shard 0 waits for a decision meanwhile."""
    with connect(stack.database_url) as connection:
        order, run = failed_run(connection, scene.workflow)
        batch = connection.execute(
            "SELECT max(kafka_batches.id) FROM workorders.kafka_batches "
            "JOIN workorders.triggers ON triggers.id = trigger_id WHERE triggers.name = %s",
            [scene.topic],
        ).fetchone()
        hold = hold_key(connection, scene.topic)
        job = cancel_job(connection, scene.workflow, state="failed", total=9, error="no bed")
        stall_shard(connection)
    assert batch is not None
    trigger = f"/kafka/{scene.topic}"
    yield {
        "overview": "/",
        "trigger": trigger,
        "resolve": f"{trigger}/resolve?topic={scene.topic}&partition=0&kind=skip-lost",
        "search": "/work-orders?since=all",
        "order": f"/work-orders/{order}",
        "run": f"/runs/{run}",
        "confirm": f"/bulk/new?kind=rerun&workflow={scene.workflow}&state=failed&since=all",
        "export": f"/bulk/new?kind=export&workflow={scene.workflow}&since=all",
        "jobs": "/bulk",
        "job": f"/bulk/{job}",
        "workflow": f"/workflows/{scene.workflow}",
        "outbox": "/outbox",
        "hold": f"/outbox/holds/{hold}",
        "audit": "/audit",
        "tab": f"/dag-run?dag_id={scene.topic}_ingest&run_id=batch_{batch[0]}",
        "tab of no batch": f"/dag-run?dag_id={scene.topic}_ingest&run_id=manual",
        "problem": "/kafka/unheard-of",
    }
    with connect(stack.database_url) as connection:
        stall_shard(connection, None)


@pytest.fixture(scope="module")
def address(stack: LocalStack) -> Iterator[str]:
    """The address of the pages."""
    with running(served(site(stack.database_url, stack.kafka_settings))) as url:
        yield f"{url}/workorders"


@pytest.fixture(scope="module")
def short_address(stack: LocalStack) -> Iterator[str]:
    """The address of the same pages for a user who sees the scene alone: other tests leave hundreds of triggers."""
    viewer = ada(lambda _, dag_id: not dag_id.startswith(_PREFIX) and dag_id != dag_ids.OUTBOX)
    with running(served(site(stack.database_url, stack.kafka_settings), viewer)) as url:
        yield f"{url}/workorders"


@pytest.fixture(scope="module")
def browser(scene: Scene) -> Iterator[Browser]:
    """One browser for the windows of all tests; it keeps an event loop, and what makes the scene needs another one."""
    with running_browser() as running:
        yield running


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A window; nothing in it may fail, run a foreign script, or break the policy of the pages."""
    complaints: list[str] = []

    def complain(message: ConsoleMessage) -> None:
        if message.type == "error":
            complaints.append(f"{message.text} {message.location}")

    with browser_page(browser) as page:
        page.on("console", complain)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        yield page
    assert complaints == []


def test_the_pictures_of_the_documents_are_taken(scene: Scene, address: str, page: Page) -> None:
    page.goto(f"{address}/")
    expect(page.get_by_role("row").filter(has_text=scene.topic)).to_contain_text("47")
    take_picture(page, "pages-overview", height=680)
    page.goto(f"{address}/kafka/{scene.topic}/resolve?topic={scene.topic}&partition=0&kind=skip-lost")
    expect(page.get_by_text("15 offsets")).to_be_visible()
    take_picture(page, "pages-resolve", height=900)


def test_a_person_finds_a_failed_work_order_reruns_it_and_sees_it_finish(
    stack: LocalStack, scene: Scene, address: str, page: Page
) -> None:
    page.goto(f"{address}/work-orders?workflow={scene.workflow}&since=all")
    page.locator("select[name=state]").select_option("failed")
    page.get_by_role("button", name="Search", exact=True).click()
    page.get_by_role("row").filter(has_text="no bed is free").first.get_by_role("link").click()
    expect(page.get_by_text("Run 1 of 1 ended as failed")).to_be_visible()
    order = page.url.rpartition("/")[2]
    page.get_by_role("link", name="Rerun…").click()
    page.get_by_label("Reason").fill("a bed is free now")
    page.get_by_role("button", name="Rerun 1").click()
    require_reloadable(page, page.get_by_text("1 of 1 done."))
    page.get_by_role("link", name=order).click()
    expect(page.get_by_text("Waits for run 2.")).to_be_visible()
    with psycopg.connect(stack.database_url) as connection:
        body = '{"do": "echo", "visit": 17, "patient": "Patient/7", "ward": "icu"}'
        connection.execute("UPDATE workorders.dataclips SET body = %s WHERE id = %s", [body, order])
    page.evaluate(_UPDATE_OFTEN)
    Executing(stack.database_url, scene.workflow).worker().work()
    expect(page.get_by_text("Run 2 of 2 ended as success")).to_be_visible()
    page.goto(page.url)  # without the pages' messages about the updates before
    expect(page.get_by_role("heading", name="Input")).to_be_visible()
    take_picture(page, "pages-work-order", height=720)


def test_the_log_of_a_run_and_the_end_of_a_batch_appear_without_a_reload(
    stack: LocalStack, address: str, page: Page, name: str
) -> None:
    page.add_init_script(_UPDATE_OFTEN)
    work, worker_id = Executing(stack.database_url, name), uuid4()
    work.create([{"do": "echo"}])
    with connect(stack.database_url) as connection:
        add_worker(connection, work.workflow, worker_id)
        (run,) = claiming.claim(connection, work.workflow, limit=1, worker_id=worker_id)
    page.goto(f"{address}/runs/{run.run_id}")
    expect(page.get_by_text("No log yet")).to_be_visible()
    with connect(stack.database_url) as connection:
        result = RunResult(run_id=run.run_id, state="success", output=b"7", log="bed 7 is free")
        lifecycle.finish(connection, worker_id, [result])
    expect(page.get_by_text("bed 7 is free")).to_be_visible()
    expect(page.locator(".lead .pill")).to_have_text("success")
    with connect(stack.database_url) as connection:
        trigger = triggers.register(connection, name=f"{name}-orders", type_="kafka", workflow=name, definition={})
        batch_id = plan(connection, trigger, OffsetRange(partition_of(trigger.name), 0, 10))
    page.goto(f"{address}/dag-run?dag_id={trigger.name}_ingest&run_id=batch_{batch_id}")
    expect(page.locator(".lead .pill")).to_have_text("unfinished")
    with connect(stack.database_url) as connection:
        connection.execute(
            "UPDATE workorders.kafka_ranges SET finished_at = now(), created = 10, rejected = 0 WHERE batch_id = %s",
            [batch_id],
        )
    expect(page.locator(".lead .pill")).to_have_text("finished")


def test_a_person_searches_selects_all_and_cancels(stack: LocalStack, address: str, page: Page) -> None:
    waiting = Executing(stack.database_url, "clinic-waits")
    waiting.create([{"number": number} for number in range(120)])
    page.goto(f"{address}/work-orders?workflow=clinic-waits")
    page.get_by_label("Select all of this page").check()
    expect(page.get_by_text("50 selected")).to_be_visible()
    page.get_by_role("link", name="Cancel all…").click()
    expect(page.get_by_role("heading", name="Cancel 120 work orders")).to_be_visible()
    page.get_by_label("Reason").fill("sent by mistake")
    page.get_by_role("button", name="Cancel 120").click()
    expect(page.get_by_text("120 of 120 done.")).to_be_visible()
    expect(page.locator(".lead .pill")).to_have_text("finished")
    assert {state for state, _ in waiting.states()} == {"cancelled"}


def test_a_person_exports_what_matches_and_may_do_it_again(
    stack: LocalStack, address: str, page: Page, name: str
) -> None:
    Executing(stack.database_url, name).create([{"number": number} for number in range(3)])
    page.goto(f"{address}/work-orders?workflow={name}")
    page.get_by_role("link", name="Export all…").click()
    expect(page.get_by_role("heading", name="Export 3 work orders")).to_be_visible()
    require_usable(page)
    page.get_by_label("Reason").fill("an audit")
    for _ in range(2):
        with page.expect_download() as download:
            page.get_by_role("button", name="Export 3").click()
        assert download.value.suggested_filename == "work-orders.jsonl"
        assert len(download.value.path().read_text(encoding="utf-8").splitlines()) == 3


def test_a_failed_update_is_named_until_one_succeeds_and_none_follows_a_lost_login(
    scene: Scene, address: str, browser: Browser
) -> None:
    updates = re.compile("/workflows/")
    with browser_page(browser) as page:  # whose console names each failure
        banner = page.locator("#stale")
        page.clock.install()
        page.goto(f"{address}/workflows/{scene.workflow}")
        expect(banner).to_be_hidden()
        page.route(updates, lambda route: route.fulfill(status=503))
        page.clock.run_for(15_100)
        expect(banner).to_contain_text("The last update failed; what you see is older.")
        page.unroute(updates)
        page.route(updates, lambda route: route.abort())
        page.clock.run_for(15_100)
        expect(banner).to_contain_text("Airflow does not answer; what you see is older.")
        page.unroute(updates)
        page.clock.run_for(15_100)
        expect(banner).to_be_hidden()
        page.route(updates, lambda route: route.fulfill(status=401))
        page.clock.run_for(15_100)
        expect(banner).to_contain_text("Your session has ended, so this page is no longer updated.")
        page.unroute(updates)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.clock.run_for(600_000)
        for hidden in ("true", "false"):
            page.evaluate(_HIDE % hidden + _VISIBILITY_CHANGES)
        page.clock.run_for(600_000)
        assert asked == []
        expect(banner).to_be_visible()


def test_an_update_that_is_refused_says_which_right_it_takes(scene: Scene, address: str, browser: Browser) -> None:
    with browser_page(browser) as page:  # whose console names the refusal
        page.goto(f"{address}/workflows/{scene.workflow}", wait_until="networkidle")
        page.route("**/workflows/*", lambda route: route.fulfill(status=403, body=_PROBLEM))
        page.evaluate(_UPDATE_NOW)
        expect(page.locator("#stale")).to_contain_text("You may no longer read this, so the page is no longer updated.")
        expect(page.locator("#stale")).to_contain_text("The database is tired.")


def test_a_hostile_input_runs_nothing_and_is_read(scene: Scene, address: str, page: Page) -> None:
    page.goto(f"{address}/work-orders?trigger=clinic-admissions&since=all&state=failed")
    page.get_by_role("row").filter(has_text="KeyError").get_by_role("link").click()
    expect(page.get_by_text("<script>alert(1)</script>")).to_be_visible()
    expect(page.get_by_text("abc\\u202edef")).to_be_visible()
    assert page.evaluate("document.images.length") == 0


def test_a_hidden_tab_asks_for_nothing_and_a_visible_one_at_once(scene: Scene, address: str, page: Page) -> None:
    asked: list[str] = []
    page.clock.install()
    page.goto(f"{address}/workflows/{scene.workflow}")
    page.on("request", lambda request: asked.append(request.url))
    with page.expect_response(re.compile("/workflows/")):
        page.clock.run_for(15_100)
    page.evaluate(_HIDE % "true" + _VISIBILITY_CHANGES)
    asked.clear()
    page.clock.run_for(60_000)
    assert asked == []
    with page.expect_response(re.compile("/workflows/")):
        page.evaluate(_HIDE % "false" + _VISIBILITY_CHANGES)


def test_the_theme_is_airflows_and_text_is_readable_in_both(address: str, page: Page) -> None:
    for theme, background in (("light", "rgb(255, 255, 255)"), ("dark", "oklch(0.23185 0.0323 266.44)")):
        page.goto(f"{address}/bulk")
        page.evaluate(f"localStorage.setItem('theme', '{theme}')")
        page.reload()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == background


def test_an_update_leaves_the_focus_where_it_is(scene: Scene, address: str, page: Page) -> None:
    page.add_init_script(_UPDATE_OFTEN)
    page.goto(f"{address}/")
    link = page.get_by_role("link", name=scene.workflow, exact=True).last
    link.focus()
    page.evaluate("document.activeElement.dataset.old = 'yes'")
    expect(page.locator("[data-old]")).to_have_count(0)
    expect(link).to_be_focused()


def hold(page: Page, addresses: str) -> list[Route]:
    """Let requests wait, and return the list into which they come."""
    held: list[Route] = []

    def keep(route: Route) -> None:
        held.append(route)

    page.route(addresses, keep)
    return held


def test_an_update_on_its_way_does_not_undo_what_a_person_began(
    paths: dict[str, str], address: str, page: Page
) -> None:
    page.goto(f"{address}{paths['order']}", wait_until="networkidle")
    held = hold(page, "**/work-orders/*")
    with page.expect_request(re.compile("/work-orders/")):
        page.evaluate(_UPDATE_NOW)
    page.locator("#live pre").first.focus()
    page.evaluate("document.activeElement.dataset.old = 'yes'")
    with page.expect_response(re.compile("/work-orders/")) as answer:
        held[0].continue_()
    answer.value.finished()
    page.evaluate("new Promise((done) => setTimeout(done))")  # a task after the one in which htmx has the answer
    expect(page.locator("[data-old]")).to_have_count(1)


def test_boxes_ticked_before_the_script_came_are_counted(scene: Scene, address: str, page: Page) -> None:
    held = hold(page, "**/pages.js*")
    with page.expect_request("**/pages.js*"):
        page.goto(f"{address}/work-orders?workflow={scene.workflow}&since=all", wait_until="commit")
    page.locator("input[name=selected]").first.check()
    expect(page.get_by_text("1 selected")).to_be_hidden()
    held[0].continue_()
    expect(page.get_by_text("1 selected")).to_be_visible()


@pytest.mark.parametrize(
    ("theme", "width"),
    [
        ("light", _WIDE),
        ("dark", _NARROW),
        pytest.param("light", _NARROW, marks=pytest.mark.long),
        pytest.param("dark", _WIDE, marks=pytest.mark.long),
        pytest.param("dark", 768, marks=pytest.mark.long),
        pytest.param("dark", 1920, marks=pytest.mark.long),
    ],
)
def test_no_page_breaks_a_rule_of_accessibility_or_is_wider_than_the_window(
    paths: dict[str, str], short_address: str, browser: Browser, theme: str, width: int
) -> None:
    """In light windows, Tab also leads to everything that acts, and shows where it is."""
    with browser_page(browser, width=width) as page:
        page.add_init_script(f"localStorage.setItem('theme', '{theme}')")
        broken: dict[str, list[str]] = {}
        for kind, path in paths.items():
            page.goto(f"{short_address}{path}", wait_until="networkidle")  # until the first update has come
            page.evaluate(_STOP_UPDATES)
            broken[kind] = []
            for shown in (_FRAMED, width):
                page.set_viewport_size({"width": shown, "height": 900})
                broken[kind] += violations(page)
                assert page.evaluate("document.documentElement.scrollWidth") <= shown, (kind, shown)
            broken[kind] += unreachable(page) if theme == "light" else []
        assert {kind: found for kind, found in broken.items() if found} == {}


def require_reloadable(page: Page, said: Locator) -> None:
    """Require of the page after a form that it says something, and says it again when it is loaded again."""
    expect(said).to_be_visible()
    with page.expect_request(page.url) as request:
        page.reload()
    assert request.value.method == "GET"
    expect(said).to_be_visible()


def require_usable(page: Page) -> None:
    """Require of a page that answers a form what the tests of the other pages require of each address."""
    assert violations(page) == []
    assert unreachable(page) == []
    shown = page.viewport_size
    assert shown is not None
    page.set_viewport_size({"width": _FRAMED, "height": shown["height"]})
    assert page.evaluate("document.documentElement.scrollWidth") <= _FRAMED
    page.set_viewport_size(shown)
