"""A person who begins at Airflow's start page finds out why orders are late, and repairs it without a terminal.

The pages are those that Airflow serves, in its frame, with the user that Airflow knows.
"""

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, ConsoleMessage, FrameLocator, Page, expect

from local_stack.stack import LocalStack
from support.airflow_api import AirflowApi
from support.browser import browser_page, running_browser
from support.eventually import eventually
from support.flow import SECONDS, Flow
from support.observed_trigger import ObservedTrigger, Place

VIEW = "/plugin/workorders/workorders"
COLORS = "names => names.map((name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`))"
LOST = 20
KEPT = 30


@pytest.fixture(scope="module")
def late(api: AirflowApi, triggers: dict[str, ObservedTrigger]) -> Flow:
    """The trigger whose orders are late."""
    return Flow(api, triggers["late"])


@pytest.fixture(scope="module")
def kept(late: Flow, tmp_path_factory: pytest.TempPathFactory) -> list[Place]:
    """Orders that Kafka still has: some of them behind others that retention deleted unread."""

    notes = tmp_path_factory.mktemp("notes") / "notes"

    def order(number: int) -> bytes:
        return json.dumps({"file": str(notes), "word": f"order {number}", "fail_once": False}).encode()

    both = [*((0, order(number)) for number in range(LOST)), (1, order(100)), (1, order(101))]
    with late.held_back(both) as places:
        late.trigger.delete_before(0, LOST)
        behind = late.trigger.produce((0, order(number)) for number in range(LOST, LOST + KEPT))
    return [place for place in places if place.partition == 1] + behind


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for the windows of all tests."""
    with running_browser() as running:
        yield running


@pytest.fixture
def page(airflow_stack: LocalStack, browser: Browser) -> Iterator[Page]:
    """A window at Airflow's start page; nothing of ours in it may fail."""
    complaints: list[str] = []

    def complain(message: ConsoleMessage) -> None:
        if message.type == "error" and "/workorders" in message.location["url"]:
            complaints.append(f"{message.text} {message.location}")

    with browser_page(browser) as page:
        page.on("console", complain)
        page.goto(airflow_stack.airflow_url)
        yield page
    assert complaints == []


def test_a_person_finds_out_why_orders_are_late_and_repairs_it(late: Flow, kept: list[Place], page: Page) -> None:
    page.get_by_role("link", name="Work orders").first.click()
    ours = ours_in(page)
    look_often(ours)
    stall = ours.get_by_role("listitem").filter(has_text="late: e2e.late 0")
    expect(stall).to_contain_text("were deleted by retention before they were read", timeout=SECONDS * 1000)
    stall.get_by_role("link", name="See why").click()
    expect(page).to_have_url(re.compile(f"{VIEW}/kafka/late$"))
    look_often(ours)
    expect(ours.get_by_text("nothing was committed there")).to_be_visible()
    ours.get_by_role("link", name="Resolve…").click()
    ours.get_by_label("Skip what Kafka has lost").check()
    ours.get_by_role("button", name="Preview").click()
    expect(ours.get_by_text(f"{LOST} offsets")).to_be_visible()
    ours.get_by_label("Reason").fill("retention was one hour")
    ours.get_by_label("Type the number").fill(str(LOST))
    ours.get_by_role("button", name="Skip what Kafka has lost").click()
    expect(ours.get_by_role("status").filter(has_text="the ledger went from")).to_be_visible()
    expect(ours.get_by_role("row").filter(has_text="retention was one hour")).to_contain_text("skip-lost")
    expect(ours.locator(".lead")).to_contain_text("up to date", timeout=SECONDS * 1000)
    late.until_ingested(kept)


def test_a_batch_leads_to_its_dag_run_whose_tab_leads_back(
    airflow_stack: LocalStack, late: Flow, kept: list[Place], page: Page
) -> None:
    page.goto(f"{airflow_stack.airflow_url}{VIEW}/kafka/late")
    ours_in(page).get_by_role("link", name=re.compile("^Batch ")).last.click()
    expect(page).to_have_url(re.compile("/dags/late_ingest/runs/batch_[0-9]+"))
    # By its address: until the tabs of the Dag run are there, the link in the menu is the last of this name.
    page.locator("a[href$='/plugin/workorders-batch']").click()
    tab = ours_in(page)
    expect(tab.get_by_role("heading", name=re.compile("^Batch "))).to_be_visible()
    created = tab.get_by_role("row").filter(has_text="e2e.late 1").locator("[data-label=Created]")
    expect(created).to_have_text("2")
    created.get_by_role("link").click()
    expect(page).to_have_url(re.compile(f"{VIEW}/work-orders\\?.*stream="))
    expect(ours_in(page).locator("tbody tr")).to_have_count(2)
    page.go_back()
    tab.get_by_role("link", name="Trigger late").click()
    expect(ours_in(page).get_by_role("heading", name="Partitions")).to_be_visible()
    assert page.locator("iframe").count() == 1
    assert ours_in(page).locator("#root").count() == 0
    page.go_back()
    tab.get_by_role("link", name="its task create_work_orders").click()
    expect(page).to_have_url(re.compile("/dags/late_ingest/runs/batch_[0-9]+/tasks/create_work_orders"))
    page.goto(f"{page.url.partition('?')[0]}/details")
    page.get_by_role("link", name="Work orders of this batch").click()
    expect(page).to_have_url(re.compile(f"{VIEW}/dag-run\\?dag_id=late_ingest&run_id=batch_"))
    expect(ours_in(page).get_by_role("heading", name=re.compile("^Batch "))).to_be_visible()


def test_what_a_person_changes_is_in_airflows_audit_log(
    airflow_stack: LocalStack, api: AirflowApi, kept: list[Place], page: Page
) -> None:
    entries = api.get("/eventLogs", dag_id="late_ingest", event="workorders_resolve")["event_logs"]
    assert "retention was one hour" in [json.loads(entry["extra"])["reason"] for entry in entries]
    page.goto(f"{airflow_stack.airflow_url}/dags/late_ingest/events")
    expect(page.get_by_role("row").filter(has_text="workorders_resolve").first).to_be_visible()


def test_the_pages_follow_airflows_theme_and_fit_into_its_frame(page: Page) -> None:
    page.get_by_role("link", name="Work orders").first.click()
    expect(ours_in(page).get_by_role("heading", name="Kafka triggers")).to_be_visible()
    (ours,) = (frame for frame in page.frames if "/workorders/" in frame.url and frame.parent_frame)
    for theme in ("dark", "light"):
        page.get_by_role("button", name="User").click()
        page.get_by_role("menuitem", name="Appearance").click()
        page.get_by_role("menuitemradio", name=f"{theme} mode").click()
        expect(page.locator("html")).to_have_class(re.compile(theme))
        eventually(
            lambda: (
                ours.evaluate(COLORS, ["bg", "edge", "accent"])
                == page.evaluate(COLORS, [f"chakra-colors-{name}" for name in ("bg", "border-emphasized", "fg-info")])
            ),
            seconds=SECONDS,
            what="Airflow's colors in our page",
        )
    for width in (360, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        widths = ours.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert widths[0] <= widths[1] <= width


def ours_in(page: Page) -> FrameLocator:
    """Return the part of Airflow's page that shows ours."""
    return page.frame_locator('iframe[title="Work orders"]')


def look_often(ours: FrameLocator) -> None:
    """Let a page of ours update itself every two seconds."""
    ours.locator("body").evaluate("setInterval(() => window.htmx.trigger(document.body, 'workorders:poll'), 2000)")
