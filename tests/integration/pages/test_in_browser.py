"""What a person does in a real Chromium: see why something is late, and repair it."""

import re
from collections.abc import Iterator

import psycopg
import pytest
from playwright.sync_api import ConsoleMessage, Page, expect

from local_stack.stack import LocalStack
from support.browser import browser_page, take_picture
from support.executing import Executing
from support.pages import running, served, site
from support.pages_scene import Scene, make_scene

pytestmark = pytest.mark.integration

_HIDE = "Object.defineProperty(document, 'hidden', {get: () => %s, configurable: true});"
_VISIBILITY_CHANGES = "document.dispatchEvent(new Event('visibilitychange'))"


@pytest.fixture(scope="module")
def scene(stack: LocalStack) -> Scene:
    """A stall, failed work orders, and an input that is made to break pages."""
    return make_scene(stack, "clinic-")


@pytest.fixture(scope="module")
def address(stack: LocalStack) -> Iterator[str]:
    """The address of the pages."""
    with running(served(site(stack.database_url, stack.kafka_settings))) as url:
        yield f"{url}/workorders"


@pytest.fixture
def page() -> Iterator[Page]:
    """A window; nothing in it may fail, run a foreign script, or break the policy of the pages."""
    complaints: list[str] = []

    def complain(message: ConsoleMessage) -> None:
        if message.type == "error":
            complaints.append(f"{message.text} {message.location}")

    with browser_page() as page:
        page.set_default_timeout(20_000)
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


def test_a_person_finds_a_stall_reads_why_and_resolves_it(
    stack: LocalStack, scene: Scene, address: str, page: Page
) -> None:
    page.goto(f"{address}/")
    stall = page.get_by_role("listitem").filter(has_text=f"{scene.topic} 0")
    expect(stall).to_contain_text("were deleted by retention before they were read")
    stall.get_by_role("link", name="See why").click()
    page.get_by_role("link", name="Resolve…").click()
    page.get_by_label("Skip what Kafka has lost").check()
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_text("15 offsets")).to_be_visible()
    page.get_by_label("Reason").fill("retention was one hour")
    confirm = page.get_by_role("button", name="Skip what Kafka has lost")
    page.get_by_label("Type the number").fill("14")
    expect(confirm).to_be_disabled()
    page.get_by_label("Type the number").fill("15")
    confirm.click()
    expect(page.get_by_role("heading", name="Decided")).to_be_visible()
    page.get_by_role("link", name="Watch the trigger").click()
    expect(page.get_by_role("row").filter(has_text="retention was one hour")).to_contain_text("skip-lost")
    with psycopg.connect(stack.database_url) as connection:
        rows = connection.execute(
            "SELECT next_offset, status FROM workorders.kafka_ledger WHERE topic = %s AND partition = 0", [scene.topic]
        ).fetchall()
    assert rows == [(135, "active")]


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
    expect(page.get_by_role("heading", name="1 given a new run")).to_be_visible()
    page.get_by_role("link", name=order).click()
    expect(page.get_by_text("Waits for run 2.")).to_be_visible()
    with psycopg.connect(stack.database_url) as connection:
        connection.execute('UPDATE workorders.dataclips SET body = \'{"do": "echo"}\' WHERE id = %s', [order])
    page.locator("#interval").select_option("2")
    Executing(stack.database_url, scene.workflow).worker().work()
    expect(page.get_by_text("Run 2 of 2 ended as success")).to_be_visible()


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


def test_a_hostile_input_runs_nothing_and_is_read(scene: Scene, address: str, page: Page) -> None:
    page.goto(f"{address}/work-orders?trigger=clinic-admissions&since=all&state=failed")
    page.get_by_role("row").filter(has_text="KeyError").get_by_role("link").click()
    expect(page.get_by_text("<script>alert(1)</script>")).to_be_visible()
    expect(page.get_by_text("abc\\u202edef")).to_be_visible()
    assert page.evaluate("document.images.length") == 0


@pytest.mark.parametrize("width", [320, 360, 768, 1280, 1920])
def test_no_page_is_wider_than_the_window(scene: Scene, address: str, width: int) -> None:
    with browser_page(width=width) as page:
        for path in ("/", f"/kafka/{scene.topic}", "/work-orders?since=all", f"/workflows/{scene.workflow}", "/outbox"):
            page.goto(f"{address}{path}")
            widths = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
            assert widths[0] <= widths[1], path


def test_a_hidden_tab_asks_for_nothing_and_a_visible_one_at_once(scene: Scene, address: str, page: Page) -> None:
    asked: list[str] = []
    page.add_init_script("sessionStorage.setItem('workorders-interval', '2')")
    page.clock.install()
    page.goto(f"{address}/workflows/{scene.workflow}")
    page.on("request", lambda request: asked.append(request.url))
    with page.expect_response(re.compile("/workflows/")):
        page.clock.run_for(2_100)
    page.evaluate(_HIDE % "true" + _VISIBILITY_CHANGES)
    asked.clear()
    page.clock.run_for(60_000)
    assert asked == []
    with page.expect_response(re.compile("/workflows/")):
        page.evaluate(_HIDE % "false" + _VISIBILITY_CHANGES)


def test_the_theme_is_airflows_and_text_is_readable_in_both(address: str, page: Page) -> None:
    for theme, background in (("light", "rgb(255, 255, 255)"), ("dark", "rgb(17, 17, 17)")):
        page.goto(f"{address}/jobs")
        page.evaluate(f"localStorage.setItem('theme', '{theme}')")
        page.reload()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == background
