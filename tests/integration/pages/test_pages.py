"""What the pages show, and what they change."""

import csv
import io
import json
import re
from html import unescape
from uuid import UUID

import psycopg
import pytest
from starlette.testclient import TestClient

from local_stack.stack import LocalStack
from support.eventually import eventually
from support.pages import ada, form_token, served, site
from support.pages_scene import Scene, make_scene
from workorders.core.postgres.connection import connect
from workorders.pages.app import HEADERS
from workorders.pages.site import Site

pytestmark = pytest.mark.integration

FROM_KAFKA = {"hx-request": "true"}


def test_the_overview_begins_with_the_stall_and_its_error(client: TestClient, scene: Scene) -> None:
    text = text_of(client.get("/workorders/", headers=FROM_KAFKA).text)
    stall = text.index(f"{scene.topic}: {scene.topic} 0")
    assert "were deleted by retention before they were read" in text[stall:]
    assert stall < text.index("Kafka triggers")


def test_the_overview_shows_the_lag_of_the_last_hours_and_what_comes_and_goes(client: TestClient, scene: Scene) -> None:
    page = client.get("/workorders/").text
    line = page[page.rindex(f'kafka/{scene.topic}"') :]
    assert "<title>Lag every 10 minutes, last 6 h: " in line[: line.index("</tr>")]
    visits = page[page.rindex(f'kafka/{scene.topic.replace("orders", "visits")}"') :]
    assert "unknown" in visits[: visits.index("</tr>")]  # its listener has never looked


def test_the_first_look_does_not_wait_for_kafka_and_the_next_one_has_its_offsets(
    stack: LocalStack, scene: Scene, client: TestClient
) -> None:
    silent = TestClient(served(site(stack.database_url, {"bootstrap.servers": "127.0.0.1:9"})))
    first = text_of(silent.get(f"/workorders/kafka/{scene.topic}").text)
    assert "Kafka is being asked" in first
    unanswered = text_of(silent.get(f"/workorders/kafka/{scene.topic}", headers=FROM_KAFKA).text)
    assert "Kafka's offsets are unknown" in unanswered
    assert "did not answer" in unanswered
    answered = text_of(client.get(f"/workorders/kafka/{scene.topic}", headers=FROM_KAFKA).text)
    assert "offsets wait in Kafka" in answered
    assert re.search(rf"{scene.topic} 1 (in batch \d+|behind)", answered)


def test_a_stall_is_resolved_after_a_preview_with_a_reason_and_the_number_that_is_lost(stack: LocalStack) -> None:
    scene = make_scene(stack, "resolve-")
    own = site(stack.database_url, stack.kafka_settings)
    client = TestClient(served(own), headers={"sec-fetch-site": "same-origin"})
    address = f"/workorders/kafka/{scene.topic}/resolve"
    page = client.get(f"{address}?topic={scene.topic}&partition=0&kind=skip-lost").text
    assert "15 offsets" in page
    assert "Does not fit" in page
    fields = fields_of(page)
    refused = client.post(address, data={**fields, "reason": "retention was too short", "typed": "14"})
    assert refused.status_code == 422
    assert client.post(address, data={**fields, "typed": "15"}).status_code == 422
    done = client.post(address, data={**fields, "reason": "retention was too short", "typed": "15"})
    assert done.status_code == 200, done.text
    assert "the ledger goes from 120 to 135" in text_of(done.text)
    again = client.post(address, data={**fields, "reason": "retention was too short", "typed": "15"})
    assert again.status_code in {400, 409}
    decided = text_of(client.get(f"/workorders/kafka/{scene.topic}").text)
    assert "ada" in decided
    assert "retention was too short" in decided
    with psycopg.connect(stack.database_url) as connection:
        row = connection.execute(
            "SELECT actor, account, reason, lost_end - lost_start FROM workorders.kafka_decisions WHERE topic = %s",
            [scene.topic],
        ).fetchall()
    assert row == [("ada", "ada", "retention was too short", 15)]


def test_what_has_moved_since_the_preview_is_not_decided(stack: LocalStack, scene: Scene, client: TestClient) -> None:
    address = f"/workorders/kafka/{scene.topic}/resolve"
    fields = fields_of(client.get(f"{address}?topic={scene.topic}&partition=0&kind=skip-lost").text)
    facts = fields["facts"].replace('"to_offset":135', '"to_offset":134')
    assert facts != fields["facts"]
    answer = client.post(address, data={**fields, "facts": facts, "reason": "a test", "typed": "15"})
    assert answer.status_code == 409
    assert "has changed since the preview" in answer.text
    with psycopg.connect(stack.database_url) as connection:
        assert connection.execute(
            "SELECT count(*) FROM workorders.kafka_decisions WHERE topic = %s", [scene.topic]
        ).fetchone() == (0,)


def test_a_search_lists_what_matches_and_its_address_is_the_search(client: TestClient, scene: Scene) -> None:
    text = client.get(f"/workorders/work-orders?workflow={scene.workflow}&state=rejected&since=all").text
    assert text.count('name="selected"') == 1
    assert "not-json" in text
    empty = client.get(f"/workorders/work-orders?workflow={scene.workflow}&state=lost").text
    assert "No work order matches" in empty
    wrong = client.get("/workorders/work-orders?since=soon")
    assert wrong.status_code == 422
    assert "since: nothing was searched" in wrong.text


def test_pages_follow_one_another_without_a_gap(client: TestClient, scene: Scene) -> None:
    seen: list[str] = []
    address: str | None = f"/workorders/work-orders?workflow={scene.workflow}&since=all"
    while address:
        text = client.get(address).text
        seen += re.findall(r'name="selected" value="([^"]+)"', text)
        older = re.search(r'href="([^"]+)">Older<', text)
        address = unescape(older[1]) if older else None
    assert len(seen) == len(set(seen)) == 339
    assert seen == sorted(seen, reverse=True)


def test_a_failed_work_order_shows_why_and_is_rerun_with_actor_and_reason(
    stack: LocalStack, pages_site: Site, client: TestClient, scene: Scene
) -> None:
    listed = client.get(f"/workorders/work-orders?workflow={scene.workflow}&state=failed&since=all").text
    id_ = re.findall(r'name="selected" value="([^"]+)"', listed)[-1]
    page = text_of(client.get(f"/workorders/work-orders/{id_}").text)
    assert "Run 1 of 1 ended as failed: ValueError: no bed is free" in page
    confirm = client.get(f"/workorders/work-orders/confirm?kind=rerun&selected={id_}").text
    assert "Rerun 1 work order" in text_of(confirm)
    done = client.post("/workorders/work-orders/apply", data={**fields_of(confirm), "reason": "a bed is free"})
    assert done.status_code == 200
    assert "1 given a new run" in text_of(done.text)
    after = text_of(client.get(f"/workorders/work-orders/{id_}").text)
    assert "Waits for run 2." in after
    assert "ada: a bed is free" in after
    again = client.post("/workorders/work-orders/apply", data={**fields_of(confirm), "reason": "again"})
    assert "1 skipped" in text_of(again.text)
    assert UUID(id_)


def test_all_that_match_are_cancelled_by_a_job_that_shows_its_progress(stack: LocalStack, pages_site: Site) -> None:
    scene = make_scene(stack, "cancel-")
    client = TestClient(served(pages_site), headers={"sec-fetch-site": "same-origin"}, follow_redirects=False)
    query = f"workflow={scene.workflow}&state=failed&since=all"
    confirm = client.get(f"/workorders/work-orders/confirm?kind=rerun&{query}").text
    assert "Rerun 38 work orders" in text_of(confirm)
    started = client.post("/workorders/work-orders/apply", data={**fields_of(confirm), "reason": "again"})
    assert started.status_code == 303
    until_finished(client, started.headers["location"])
    waiting = f"workflow={scene.workflow}&state=pending&since=all"
    confirm = client.get(f"/workorders/work-orders/confirm?kind=cancel&{waiting}").text
    started = client.post("/workorders/work-orders/apply", data={**fields_of(confirm), "reason": "by mistake"})
    text = until_finished(client, started.headers["location"])
    assert "38 of 38 done" in text
    with connect(stack.database_url) as connection:
        job = connection.execute(
            "SELECT kind, state, done, actor, account, reason FROM workorders.bulk_jobs ORDER BY id DESC LIMIT 1"
        ).fetchone()
    assert job == ("cancel", "finished", 38, "ada", "ada", "by mistake")


def test_a_workflow_shows_its_runs_its_durations_and_its_failures_by_error(client: TestClient, scene: Scene) -> None:
    text = text_of(client.get(f"/workorders/workflows/{scene.workflow}").text)
    assert "0 of 8 running" in text
    assert "ValueError: no bed is free 12" in text
    assert re.search(r"Took [\d.]+ m?s", text)
    assert client.get("/workorders/workflows/unheard-of").status_code == 404


def test_the_tab_of_an_ingest_run_shows_its_ranges_and_leads_to_their_work_orders(
    stack: LocalStack, client: TestClient, scene: Scene
) -> None:
    with psycopg.connect(stack.database_url) as connection:
        (batch,) = connection.execute(
            "SELECT min(batch_id) FROM workorders.kafka_ranges WHERE topic = %s", [scene.topic]
        ).fetchone() or (None,)
    page = client.get(f"/workorders/dag-run?dag_id={scene.topic}_ingest&run_id=batch_{batch}").text
    assert "[0, 120)" in page
    link = unescape(re.findall(r'href="[^"]*(/workorders/work-orders\?[^"]+)"', page)[0])
    found = client.get(f"{link}&since=all").text
    assert found.count('name="selected"') == 50
    assert "Older" in found


@pytest.mark.parametrize(
    "query", ["", "dag_id=other&run_id=manual__1", "dag_id=x_ingest&run_id=batch_999999999", "dag_id=x_ingest&run_id=y"]
)
def test_the_tab_of_any_other_dag_run_says_that_it_ingests_nothing(client: TestClient, query: str) -> None:
    answer = client.get(f"/workorders/dag-run?{query}")
    assert answer.status_code == 200
    assert "No Kafka messages" in answer.text


def test_a_bulk_action_without_any_limit_is_refused(client: TestClient, pages_site: Site) -> None:
    assert client.get("/workorders/work-orders/confirm?kind=rerun&since=all").status_code == 422
    data = {"kind": "rerun", "query": "since=all", "reason": "all", "csrf": form_token(pages_site, "ada")}
    assert client.post("/workorders/work-orders/apply", data=data).status_code == 422


@pytest.mark.parametrize("format_", ["jsonl", "csv"])
def test_an_export_is_a_file_with_everything_that_matches(client: TestClient, scene: Scene, format_: str) -> None:
    answer = client.get(f"/workorders/work-orders/export?format={format_}&workflow={scene.workflow}&since=all")
    assert answer.headers["content-disposition"].startswith("attachment; ")
    assert answer.headers["x-content-type-options"] == "nosniff"
    if format_ == "jsonl":
        rows = [json.loads(line) for line in answer.text.splitlines()]
    else:
        rows = list(csv.DictReader(io.StringIO(answer.text, newline="")))
    assert len({row["id"] for row in rows}) == len(rows) == 339


def test_a_hostile_input_is_text_and_nothing_else(client: TestClient, scene: Scene) -> None:
    listed = client.get(f"/workorders/work-orders?trigger={scene.topic[:-6]}admissions&since=all").text
    for id_ in re.findall(r'name="selected" value="([^"]+)"', listed):
        page = client.get(f"/workorders/work-orders/{id_}").text
        assert "<script>alert" not in page
        assert "<img" not in page
        assert 'onmouseover="alert' not in page
        assert "\u202e" not in page
        assert ">49<" not in page
        download = client.get(f"/workorders/work-orders/{id_}/body")
        if download.status_code == 200:
            assert "12345678901234567890123" in page
            assert download.headers["content-type"] == "application/octet-stream"
            assert download.headers["content-security-policy"] == "sandbox"
            assert "attachment" in download.headers["content-disposition"]


@pytest.mark.parametrize(
    "address",
    [
        "/kafka/%3Cscript%3E",
        "/work-orders?text=%3Cscript%3Ealert(1)%3C/script%3E",
        "/work-orders?trigger=%3Cscript%3E",
        "/work-orders/%3Cscript%3E",
        "/jobs/%3Cscript%3E",
        "/outbox/holds/999999999",
        "/kafka/x/resolve?topic=%22%3E%3Cscript%3E&partition=0",
        "/nothing/%3Cscript%3E",
    ],
)
def test_a_hostile_address_is_refused_or_shown_as_text(client: TestClient, address: str) -> None:
    answer = client.get(f"/workorders{address}")
    assert answer.status_code < 500
    assert "<script>" not in answer.text


def test_every_answer_forbids_what_the_pages_do_not_need(client: TestClient) -> None:
    for address in ("/workorders/", "/workorders/nothing", "/workorders/work-orders?since=soon"):
        answer = client.get(address)
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert "unsafe" not in HEADERS["Content-Security-Policy"]
    assert TestClient(served(site("", {}), ada())).get("/workorders/openapi.json").status_code == 404


def test_a_database_that_is_away_is_a_page_with_what_to_do() -> None:
    client = TestClient(served(site("postgresql://nobody@127.0.0.1:9/nothing", {})))
    answer = client.get("/workorders/")
    assert answer.status_code == 503
    assert "WO-POSTGRES-UNAVAILABLE" in answer.text
    assert "nothing was changed" in answer.text
    assert "Try again" in answer.text


def until_finished(client: TestClient, address: str) -> str:
    """Return the words of a job's page once it says that the job has ended."""

    def ended() -> str | None:
        text = text_of(client.get(address).text)
        return text if re.search(r"\bfinished \d", text) else None

    found = eventually(ended, seconds=60, what=f"the end of the job of {address}")
    assert found is not None
    return found


def fields_of(page: str) -> dict[str, str]:
    """Return the hidden fields of the form that changes something."""
    form = page[page.index('method="post"') :]
    fields = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', form[: form.index("</form>")])
    return {name: unescape(value) for name, value in fields}


def text_of(page: str) -> str:
    """Return the words of a page."""
    body = re.sub(r"<(head|svg|script).*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split())
