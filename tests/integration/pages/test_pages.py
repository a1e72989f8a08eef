"""What the pages show, and what they change."""

import json
import re
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from html import unescape
from pathlib import Path
from secrets import token_hex
from threading import BoundedSemaphore
from typing import Any
from uuid import UUID

import httpx
import psycopg
import pytest
from starlette.testclient import TestClient

from local_stack.stack import LocalStack
from support.admission import BY_NUMBER, event, ids, register
from support.command import Command
from support.eventually import eventually
from support.executing import Executing
from support.finished_steps import add_step
from support.in_process_trigger import InProcessTrigger
from support.ingesting import look, partition_of, plan
from support.outbox import Outbox, new_outbox
from support.pages import OWN, Change, ada, browser_of, form_token, listed_ids, running, served, site
from support.pages_scene import Scene, first_batch, hold_key, make_scene
from support.runs import finish_all
from support.step_functions import CONNECTION, user_database
from support.topics import Topics
from support.working import expire_workers
from workorders import dag_ids
from workorders.core import triggers
from workorders.core.creation.work_orders import create_for
from workorders.core.definitions.trigger import Sequence
from workorders.core.history import search_index, work_orders
from workorders.core.history.runs import runs_of
from workorders.core.postgres.connection import Connection, connect
from workorders.core.runs import claiming, lifecycle
from workorders.core.runs.lifecycle import RunResult
from workorders.core.triggers import Trigger
from workorders.core.workers import add_worker
from workorders.kafka.exceptions import DecisionUncertainError
from workorders.kafka.partitions import OffsetRange
from workorders.outbox import OutboxMessage
from workorders.pages import downloads, resolve, work_order
from workorders.pages.access import OF_PAGES, Right
from workorders.pages.app import HEADERS
from workorders.pages.site import Site

pytestmark = pytest.mark.integration

CONFIRM = "/workorders/bulk/new"

UPDATE = {"hx-request": "true"}
"""The header with which a page asks for itself again, with what Kafka knows."""


def test_the_overview_begins_with_the_stall_and_its_error(client: TestClient, scene: Scene) -> None:
    text = text_of(client.get("/workorders/", headers=UPDATE).text)
    stall = text.index(f"{scene.topic}: {scene.topic} 0")
    assert "were deleted by retention before they were read" in text[stall:]
    assert stall < text.index("Kafka triggers")


def kafka_trigger(connection: Connection, name: str, **rules: Any) -> Trigger:
    """Register a Kafka trigger whose topic, consumer group and workflow have its name, and commit."""
    definition = {"topics": [name], "consumer_group": name, **rules}
    trigger = triggers.register(connection, name=name, type_="kafka", workflow=name, definition=definition)
    connection.commit()
    return trigger


def row_of(page: str, begin: str) -> str:
    """Return the last row of a page that contains a text, from that text on."""
    row = page[page.rindex(begin) :]
    return row[: row.index("</tr>")]


def cells_of(page: str, begin: str) -> dict[str, str]:
    """Return the words of the cells of the row that `row_of` finds, by the heads of their columns."""
    found = re.findall(r'<td data-label="([^"]+)"[^>]*>(.*?)</td>', row_of(page, begin), flags=re.DOTALL)
    return {label: text_of(cell) for label, cell in found}


def test_a_trigger_shows_how_long_its_oldest_message_waits(
    client: TestClient, connection: Connection, name: str
) -> None:
    trigger = kafka_trigger(connection, name)
    plan(connection, trigger, OffsetRange(partition_of(name), 100, 110))
    for last_stable, minutes_ago in ((120, 28), (160, 0)):
        look(connection, name, {partition_of(name): last_stable}, ago=timedelta(minutes=minutes_ago))
    cells = cells_of(client.get("/workorders/").text, f'/kafka/{name}">')
    assert cells["Stalled"] == "0 of 1"
    assert cells["Oldest waiting"].startswith("28 min")
    assert "Oldest waiting: 28 min" in text_of(client.get(f"/workorders/kafka/{name}").text)


def test_a_trigger_of_another_type_has_no_page_of_kafka(client: TestClient, connection: Connection, name: str) -> None:
    triggers.register(connection, name=name, type_="cron", workflow=name, definition={})
    connection.commit()
    for page in ("", "/resolve?topic=orders&partition=0"):
        answer = client.get(f"/workorders/kafka/{name}{page}")
        assert answer.status_code == 404
        assert f"Trigger {name} is of type cron, which reads no partitions" in text_of(answer.text)


def test_how_long_messages_wait_is_unknown_while_the_listener_does_not_look(
    client: TestClient, connection: Connection, name: str
) -> None:
    kafka_trigger(connection, name)
    cells = cells_of(client.get("/workorders/").text, f'/kafka/{name}">')
    assert cells["Oldest waiting"] == "?"
    assert "Oldest waiting: ?" in text_of(client.get(f"/workorders/kafka/{name}").text)


def test_a_workflow_shows_its_state_and_its_work(stack: LocalStack, connection: Connection, name: str) -> None:
    busy = Executing(stack.database_url, f"{name}-busy", concurrency=8)
    busy.create([{"do": "fail"}] * 2)
    busy.worker().work()
    busy.create([{"do": "echo"}] * 3)
    claiming.claim(connection, busy.workflow, limit=1, worker_id=add_worker(connection, busy.workflow))
    late = Executing(stack.database_url, f"{name}-late")
    late.create([{"do": "echo"}])
    connection.execute(
        "UPDATE workorders.work_orders SET created_at = now() - interval '10 min' WHERE workflow_id = %s",
        [late.workflow.id],
    )
    connection.commit()
    new, idle, paused = (Executing(stack.database_url, f"{name}-{kind}") for kind in ("new", "idle", "paused"))
    new.create([{"do": "echo"}])
    client = TestClient(served(site(stack.database_url, {}, paused=[f"{paused.name}_runs"])))
    page = client.get("/workorders/").text
    cells = cells_of(page, f'/workflows/{busy.name}">')
    assert re.fullmatch(r"[\d.]+ m?s ago", cells.pop("Oldest waiting"))
    assert cells == {
        "State": "running",
        "Running": "1 of 8",
        "Waiting": "2",
        "Ended per minute": "0.1",
        "Parked": "0",
        "Failed, last 24 h": "2",
    }
    for work, word in ((late, "not running"), (new, "waiting"), (idle, "idle"), (paused, "paused")):
        assert cells_of(page, f'/workflows/{work.name}">')["State"] == word
        assert f"</span>{word}</span>" in client.get(f"/workorders/workflows/{work.name}").text


def test_another_trigger_shows_its_last_work_order_that_the_search_index_contains(stack: LocalStack, name: str) -> None:
    own = new_outbox(stack).database_url
    used, unused = Executing(own, name), Executing(own, f"{name}-unused")
    used.create([{"do": "echo"}] * 2)
    client = TestClient(served(site(own, {})))
    page = client.get("/workorders/").text
    assert cells_of(page, f'<th scope="row">{used.name}</th>')["Last work order"] == "none known"
    assert "The search index is empty" in page
    with connect(own) as connection:
        assert search_index.index_new(connection, margin=timedelta()) == 2
    page = client.get("/workorders/").text
    last = [cells_of(page, f'<th scope="row">{work.name}</th>')["Last work order"] for work in (used, unused)]
    assert re.fullmatch(r"[\d.]+ m?s ago", last[0])
    assert last[1] == "none known"


def test_the_overview_counts_all_that_needs_a_person_and_shows_the_worst(
    stack: LocalStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # of the limit, which the other tests of the pages do not have
    outbox = new_outbox(stack)
    outbox.ask(
        "INSERT INTO workorders.outbox_holds (kind, topic, bucket, key, reason, since) "
        "SELECT 'key', 'topic-' || n, 0, 'k', 'too large', now() - n * interval '1 minute' "
        "FROM generate_series(1, 57) AS n"
    )
    page = TestClient(served(site(outbox.database_url, {}))).get("/workorders/").text
    assert "Needs attention 57" in text_of(page)
    assert "7 more are not shown" in text_of(page)
    assert page.count('class="need bad"') == 50
    assert ("Outbox topic topic-57<" in page, "Outbox topic topic-7<" in page) == (True, False)


def test_the_first_look_does_not_wait_for_kafka_and_the_next_one_has_its_offsets(
    stack: LocalStack, scene: Scene, client: TestClient
) -> None:
    silent = TestClient(served(site(stack.database_url, {"bootstrap.servers": "127.0.0.1:9"})))
    first = text_of(silent.get(f"/workorders/kafka/{scene.topic}").text)
    assert "Kafka is being asked" in first
    unanswered = text_of(silent.get(f"/workorders/kafka/{scene.topic}", headers=UPDATE).text)
    assert "Kafka's offsets are unknown" in unanswered
    assert "did not answer" in unanswered
    answered = text_of(client.get(f"/workorders/kafka/{scene.topic}", headers=UPDATE).text)
    assert "offsets wait in Kafka" in answered
    assert re.search(rf"{scene.topic} 1 (in batch \d+|behind)", answered)


def test_a_stall_is_resolved_after_a_preview_with_a_reason_and_the_number_that_is_lost(stack: LocalStack) -> None:
    scene = make_scene(stack, "resolve-")
    recorded: list[Change] = []
    own = site(stack.database_url, stack.kafka_settings, record_change=recorded.append)
    client = browser_of(served(own), follow_redirects=True)
    address = f"/workorders/kafka/{scene.topic}/resolve"
    page = client.get(f"{address}?topic={scene.topic}&partition=0&kind=skip-lost").text
    assert "15 offsets" in page
    assert "Does not apply" in page
    fields = fields_of(page)
    refused = client.post(address, data={**fields, "reason": "retention was too short", "typed": "14"})
    assert refused.status_code == 422
    assert client.post(address, data={**fields, "typed": "15"}).status_code == 422
    assert recorded == []
    done = client.post(address, data={**fields, "reason": "retention was too short", "typed": "15"})
    assert done.status_code == 200, done.text
    assert [(step.status_code, step.request.method) for step in done.history] == [(303, "POST")]
    assert done.url.path == f"/workorders/kafka/{scene.topic}"
    assert re.search(r"Decision \d+ by ada .*: the ledger went from 120 to 135\.", text_of(done.text))
    assert " by ada at " not in text_of(client.get(f"/workorders/kafka/{scene.topic}?decided=0").text)
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
    (change,) = recorded
    assert (change.event, change.user, change.dag_ids) == ("workorders_resolve", "ada", [f"{scene.topic}_ingest"])
    assert change.details["reason"] == "retention was too short"


def test_a_person_sees_what_a_time_gives_up_before_the_partition_continues_there(
    stack: LocalStack, client: TestClient, scene: Scene
) -> None:
    address = f"/workorders/kafka/{scene.topic}/resolve?topic={scene.topic}&partition=1&kind=seek"
    page = client.get(f"{address}&time=2h").text
    assert "from 100 to 0" in text_of(page)
    fields = fields_of(page)
    assert re.fullmatch(r"2\d{3}-\d\d-\d\dT[\d:.]+\+00:00", fields["time"])
    assert fields["offset"] == ""
    end = text_of(client.get(f"{address}&time=2099-01-01").text)
    assert "from 100 to 117" in end
    assert "17 offsets [100, 117)" in end
    both = text_of(client.get(f"{address}&time=2h&offset=3").text)
    assert "a time is only for seek, and only without an offset" in both
    assert client.get(f"{address}&time=soon").status_code == 422


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


def test_a_decision_of_which_nobody_knows_whether_it_was_made_is_not_called_undone(
    scene: Scene, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose_the_answer(*_: object, **__: object) -> None:
        raise DecisionUncertainError("The connection was lost; the decision was made or was not.")

    monkeypatch.setattr(resolve, "apply_decisions", lose_the_answer)
    address = f"/workorders/kafka/{scene.topic}/resolve"
    fields = fields_of(client.get(f"{address}?topic={scene.topic}&partition=0&kind=skip-lost").text)
    answer = client.post(address, data={**fields, "reason": "a test", "typed": "15"})
    assert answer.status_code == 504
    assert "Not known" in answer.text
    assert "Not done" not in answer.text


def test_a_search_lists_what_matches_and_its_address_is_the_search(client: TestClient, scene: Scene) -> None:
    text = client.get(f"/workorders/work-orders?workflow={scene.workflow}&state=rejected&since=all").text
    assert len(listed_ids(text)) == 1
    assert "not-json" in text
    empty = client.get(f"/workorders/work-orders?workflow={scene.workflow}&state=lost").text
    assert "No work order matches" in empty
    wrong = client.get("/workorders/work-orders?since=soon")
    assert wrong.status_code == 422
    assert "since: nothing was searched" in wrong.text


def test_a_failed_work_order_shows_why_and_is_rerun_with_actor_and_reason(
    stack: LocalStack, pages_site: Site, client: TestClient, scene: Scene
) -> None:
    listed = client.get(f"/workorders/work-orders?workflow={scene.workflow}&state=failed&since=all").text
    id_ = listed_ids(listed)[-1]
    page = text_of(client.get(f"/workorders/work-orders/{id_}").text)
    assert "Run 1 of 1 ended as failed: ValueError: no bed is free" in page
    confirm = client.get(f"{CONFIRM}?kind=rerun&selected={id_}").text
    assert "Rerun 1 work order" in text_of(confirm)
    done = client.post(CONFIRM, data={**fields_of(confirm), "reason": "a bed is free"})
    assert done.status_code == 303
    shown = client.get(done.headers["location"]).text
    assert "1 of 1 done." in text_of(shown)
    assert "Reason a bed is free" in text_of(shown)
    assert f'href="/workorders/work-orders/{id_}"' in shown
    after = text_of(client.get(f"/workorders/work-orders/{id_}").text)
    assert "Waits for run 2." in after
    assert "ada: a bed is free" in after
    again = client.post(CONFIRM, data={**fields_of(confirm), "reason": "again"})
    assert "1 skipped: not finished" in text_of(client.get(again.headers["location"]).text)
    assert UUID(id_)


def test_a_lost_work_order_shows_its_finished_steps_and_continues_or_starts_again(
    stack: LocalStack, pages_site: Site, name: str
) -> None:
    executing = Executing(stack.database_url, name)
    executing.create([{"do": "echo"}])
    client = browser_of(served(pages_site), follow_redirects=True)
    with connect(stack.database_url) as connection:
        (run,) = finish_all(connection, name, "lost")
        add_step(connection, run.run_id, "label", {"label": "L-1"})
        add_step(connection, run.run_id, "ship", 17, committed_elsewhere=True)
    order = run.work_order_id
    for address in (f"work-orders/{order}", f"runs/{run.run_id}"):
        page = client.get(f"/workorders/{address}").text
        assert cells_of(page, ">label</th>") | {"Finished": ""} == {
            "Kind": "step",
            "Run": "Run 1",
            "Finished": "",
            "Result": '{"label": "L-1"}',
        }
        assert cells_of(page, ">ship</th>")["Kind"] == "transaction"
    assert "2 steps were finished when this run ended as lost; the last one is ship." in text_of(page)
    for offered, chosen, generation in (
        ({"Rerun 1", "Run 1 from the start"}, {}, 1),
        ({"Rerun 1", "Run 1 from the start"}, {"from_start": "true"}, 2),
        ({"Run 1 from the start"}, {}, 3),
    ):
        confirm = client.get(f"{CONFIRM}?kind=rerun&selected={order}").text
        assert set(re.findall(r">((?:Rerun|Run) [^<]+)</button>", confirm)) == offered
        data = {**fields_of(confirm), "reason": "again", **chosen}
        done = text_of(client.post(CONFIRM, data=data).text)
        assert ("1 of 1 done." in done, "work order from the start" in done) == (True, bool(chosen))
        with connect(stack.database_url) as connection:
            assert runs_of(connection, order)[-1].generation == generation
            finish_all(connection, name, "success" if chosen else "failed")


@pytest.mark.parametrize("way", ["page", "command"])
def test_a_rerun_finishes_a_lost_run_that_had_committed_its_last_step_and_published_nothing(
    stack: LocalStack, client: TestClient, workorders: Command, tmp_path: Path, way: str
) -> None:
    name, file = f"shop-{token_hex(4)}", tmp_path / "process"
    shop = user_database(stack, name)
    function = "support.step_functions:count_and_stay"
    executing = Executing(stack.database_url, name, None, callable=function, database=CONNECTION, linger=0)
    executing.create([{"file": str(file)}])
    executing.lose(file.exists, user_database=shop)
    (order,) = executing.ids()
    assert "Run 1 of 1 ended as lost" in text_of(client.get(f"/workorders/work-orders/{order}").text)
    if way == "page":
        confirm = client.get(f"{CONFIRM}?kind=rerun&selected={order}").text
        assert ">Rerun 1</button>" in confirm
        client.post(CONFIRM, data={**fields_of(confirm), "reason": "it had shipped"})
    else:
        assert workorders("work-orders", "rerun", order, "--reason", "it had shipped").code == 0
    assert executing.worker(user_database=shop).work().states == {"success": 1}
    assert executing.states() == [("success", "success")]
    with psycopg.connect(shop) as connection:
        assert connection.execute("SELECT name, number FROM counters").fetchall() == [("once", 1)]


def test_all_that_match_are_cancelled_by_a_job_that_shows_its_progress(stack: LocalStack, pages_site: Site) -> None:
    scene = make_scene(stack, "cancel-")
    client = browser_of(served(pages_site))
    query = f"workflow={scene.workflow}&state=failed&since=all"
    confirm = client.get(f"{CONFIRM}?kind=rerun&{query}").text
    assert "Rerun 38 work orders" in text_of(confirm)
    started = client.post(CONFIRM, data={**fields_of(confirm), "reason": "again"})
    assert started.status_code == 303
    until_finished(client, started.headers["location"])
    waiting = f"workflow={scene.workflow}&state=requeued&since=all"
    confirm = client.get(f"{CONFIRM}?kind=cancel&{waiting}").text
    started = client.post(CONFIRM, data={**fields_of(confirm), "reason": "by mistake"})
    text = until_finished(client, started.headers["location"])
    assert "38 of 38 done" in text
    with connect(stack.database_url) as connection:
        job = connection.execute(
            "SELECT kind, state, done, actor, account, reason FROM workorders.bulk_jobs ORDER BY id DESC LIMIT 1"
        ).fetchone()
    assert job == ("cancel", "finished", 38, "ada", "ada", "by mistake")


def test_a_work_order_leads_to_its_batch_and_shows_what_it_published_and_its_duplicates(
    stack: LocalStack, client: TestClient, scene: Scene
) -> None:
    with connect(stack.database_url) as connection:
        row = connection.execute(
            """
            SELECT runs.work_order_id, runs.id
            FROM workorders.runs
            JOIN workorders.work_orders ON work_orders.id = runs.work_order_id
            JOIN workorders.triggers ON triggers.id = work_orders.trigger_id
            WHERE triggers.name = %s AND work_orders.position = 7
            LIMIT 1
            """,
            [scene.topic],
        ).fetchone()
        assert row is not None
        order, run = row
        connection.execute(
            "INSERT INTO workorders.outbox_published VALUES (%s, 1, gen_random_uuid(), 0, 'shipments<b>')", [run]
        )
        connection.execute("INSERT INTO workorders.ignored_repeats VALUES (%s, 3, now())", [order])
        batch = first_batch(connection, scene.topic)
    page = client.get(f"/workorders/work-orders/{order}").text
    text = text_of(page)
    assert f'href="/dags/{scene.topic}_ingest/runs/batch_{batch}"' in page
    assert "shipments&lt;b&gt;" in page
    assert "sent Run 1" in text
    assert "3 created no work order" in text


def test_a_workflow_shows_its_runs_its_durations_and_its_failures_by_error(client: TestClient, scene: Scene) -> None:
    text = text_of(client.get(f"/workorders/workflows/{scene.workflow}").text)
    assert "0 of 8 running" in text
    assert "ValueError: no bed is free 12" in text
    assert re.search(r"Took [\d.]+ m?s", text)
    assert client.get("/workorders/workflows/unheard-of").status_code == 404


def test_a_workflow_shows_how_long_half_and_almost_all_of_its_runs_waited_and_took(
    stack: LocalStack, client: TestClient, name: str
) -> None:
    executing = Executing(stack.database_url, name)
    executing.create({"do": "echo"} for _ in range(101))
    with connect(stack.database_url) as connection:
        claiming.claim(connection, executing.workflow, limit=101, worker_id=add_worker(connection, executing.workflow))
        # The run of number n waited n minutes, and took n seconds.
        connection.execute(
            """
            UPDATE workorders.runs
            SET state = 'success', created_at = timestamptz '2026-03-01', not_before = '2026-03-01',
                started_at = timestamptz '2026-03-01' + number * interval '1 minute',
                finished_at = timestamptz '2026-03-01' + number * interval '61 seconds'
            FROM (
                SELECT id, row_number() OVER (ORDER BY id) - 1 AS number
                FROM workorders.runs WHERE workflow_id = %s
            ) AS numbered
            WHERE runs.id = numbered.id
            """,
            [executing.workflow.id],
        )
    text = text_of(client.get(f"/workorders/workflows/{name}").text)
    assert "Waited 50 min 1 h 35 min 1 h 39 min Took 50 s 1 min 35 s 1 min 39 s" in text
    assert "101 runs, the first" in text


def test_the_tab_of_an_ingest_run_shows_its_ranges_and_leads_to_their_work_orders(
    stack: LocalStack, client: TestClient, scene: Scene
) -> None:
    with connect(stack.database_url) as connection:
        batch = first_batch(connection, scene.topic)
    page = client.get(f"/workorders/dag-run?dag_id={scene.topic}_ingest&run_id=batch_{batch}").text
    assert "[0, 120)" in page
    link = unescape(re.findall(r'href="[^"]*(/workorders/work-orders\?[^"]+)"', page)[0])
    found = client.get(f"{link}&since=all").text
    assert len(listed_ids(found)) == 50
    assert "Older" in found


@pytest.mark.parametrize("reads_input", [True, False])
def test_a_gap_in_a_sequence_is_on_the_page_of_its_workflow_and_of_each_parked_work_order(
    connection: Connection, pages_site: Site, name: str, *, reads_input: bool
) -> None:
    trigger = register(connection, name, sequence=BY_NUMBER)
    create_for(connection, trigger, [event(None, key="PAT-7", number=number) for number in (1, 4, 6)])
    connection.commit()
    viewer = ada(lambda right, _: right is Right.READ_INPUT and not reads_input)
    client = TestClient(served(pages_site, viewer))
    page = client.get(f"/workorders/workflows/{name}").text
    shown = text_of(page[page.index("Sequences with a gap") :])
    assert re.search(rf"{name} 2 to 3 2 .* ago Number 4 A missing number", shown)
    assert ("PAT-7" in shown) == reads_input
    order = client.get(re.findall(r'href="([^"]+)">Number 4', page)[0]).text
    told = text_of(order)
    assert "It has number 4. Numbers 2 to 3 of" in told
    assert re.search(r"The first of 2 parked came .* ago", told)
    assert ("PAT-7" in told) == reads_input
    assert f"workorders sequences skip {name} " in told
    (listed,) = set(re.findall(r'href="([^"]+state=parked[^"]+)"', order))
    assert client.get(unescape(listed)).text.count("/workorders/work-orders/0") >= 2
    assert "Waits for its sequence" not in client.get(f"/workorders/work-orders/{ids(connection, trigger)[0]}").text


def test_a_gap_in_a_sequence_is_on_the_page_of_its_kafka_trigger(
    client: TestClient, connection: Connection, name: str
) -> None:
    trigger = kafka_trigger(connection, name, sequence=Sequence.model_validate(BY_NUMBER).model_dump(mode="json"))
    assert "Sequences with a gap" not in client.get(f"/workorders/kafka/{name}").text
    create_for(connection, trigger, [event(None, key="PAT-7", number=3)])
    connection.commit()
    assert re.search(r"Sequences with a gap .* 1 to 2 1 ", text_of(client.get(f"/workorders/kafka/{name}").text))


def test_the_tab_leads_to_what_was_rejected_and_to_the_task_whose_clear_replays_the_batch(
    stack: LocalStack, client: TestClient, topics: Topics, pages_site: Site, name: str
) -> None:
    topics.create(name)
    topics.produce(name, [b"{}", b"not JSON", b"neither"])
    trigger = InProcessTrigger(stack, name)
    batch = trigger.plan().batch_id
    assert batch is not None
    trigger.ingest_messages(batch)
    address = f"/workorders/dag-run?dag_id={name}_ingest&run_id=batch_{batch}"
    page = client.get(address).text
    link = re.search(r'href="[^"]*(/workorders/work-orders\?state=rejected[^"]+)">2</a>', page)
    assert link is not None
    assert len(listed_ids(client.get(unescape(link[1])).text)) == 2
    task = f'<a data-parent href="/dags/{name}_ingest/runs/batch_{batch}/tasks/create_work_orders">'
    assert task in page
    assert f"trigger {name}_ingest with the parameter batch_id {batch}." in text_of(page)
    assert (
        f'href="/dags/{name}_ingest/runs/batch_{batch}">Batch {batch}</a>'
        in client.get(f"/workorders/kafka/{name}").text
    )
    reader = TestClient(served(pages_site, ada(lambda right, _: right is Right.REPLAY)))
    read = reader.get(address).text
    assert task not in read
    assert f"A replay requires the right to change task instances of {name}_ingest." in read


@pytest.mark.parametrize(
    "query", ["", "dag_id=other&run_id=manual__1", "dag_id=x_ingest&run_id=batch_999999999", "dag_id=x_ingest&run_id=y"]
)
def test_the_tab_of_any_other_dag_run_says_that_it_ingests_nothing(client: TestClient, query: str) -> None:
    answer = client.get(f"/workorders/dag-run?{query}")
    assert answer.status_code == 200
    assert "No Kafka messages" in answer.text


def test_a_bulk_action_without_any_limit_is_refused(client: TestClient, pages_site: Site) -> None:
    assert client.get(f"{CONFIRM}?kind=rerun&since=all").status_code == 422
    data = {"kind": "rerun", "query": "since=all", "reason": "all", "csrf": form_token(pages_site, "ada")}
    assert client.post(CONFIRM, data=data).status_code == 422


def test_each_change_is_recorded_with_its_user_and_its_dag_before_it_is_made(stack: LocalStack, name: str) -> None:
    executing = Executing(stack.database_url, name)
    executing.create([{"do": "echo"}, {"do": "echo"}])
    order, _ = executing.ids()
    recorded: list[Change] = []
    own = site(stack.database_url, stack.kafka_settings, record_change=recorded.append)
    client = browser_of(served(own))
    data = {"reason": "by mistake", "csrf": form_token(own, "ada")}
    for kind, selected in (("cancel", {"selected": order}), ("rerun", {"query": f"workflow={name}&text=Jane"})):
        chosen = {**data, "kind": kind, "from_start": "true", **selected}
        answer = client.post(CONFIRM, data=chosen)
        assert answer.status_code == 303
    client.post(f"{answer.headers['location']}/cancel", data=data)
    assert [(change.event, change.user, change.dag_ids) for change in recorded] == [
        (f"workorders_{event}", "ada", [f"{name}_runs"]) for event in ("cancel", "rerun", "stop_job")
    ]
    assert recorded[0].details["work_orders"] == [order]
    assert recorded[0].details["reason"] == "by mistake"
    assert [change.details.get("from_start") for change in recorded] == [None, True, None]
    assert "Jane" not in str(recorded)


def test_a_run_of_a_workflow_that_is_a_dag_leads_to_its_dag_run(
    stack: LocalStack, client: TestClient, name: str
) -> None:
    executing = Executing(stack.database_url, name, function=None, dag_id="ship/<it>")
    executing.create([{"do": "echo"}])
    with connect(stack.database_url) as connection:
        (run,) = claiming.claim(
            connection, executing.workflow, limit=1, worker_id=add_worker(connection, executing.workflow)
        )
        connection.execute("UPDATE workorders.runs SET started_at = now() WHERE id = %s", [run.run_id])
    page = client.get(f"/workorders/runs/{run.run_id}").text
    assert f'href="/dags/ship%2F%3Cit%3E/runs/{dag_ids.run_of(run.run_id)}"' in page


def test_a_run_whose_worker_is_gone_is_not_in_progress(stack: LocalStack, client: TestClient, name: str) -> None:
    executing = Executing(stack.database_url, name)
    executing.create([{"do": "echo"}])
    (order,) = executing.ids()
    with connect(stack.database_url) as connection:
        claiming.claim(connection, executing.workflow, limit=1, worker_id=add_worker(connection, executing.workflow))
    assert "Run 1 is in progress." in client.get(f"/workorders/work-orders/{order}").text
    with connect(stack.database_url) as connection:
        expire_workers(connection, executing.workflow)
    page = client.get(f"/workorders/work-orders/{order}").text
    assert "The worker of run 1 sends no heartbeat any more." in page
    assert "owner gone" in page


def test_nothing_is_changed_that_cannot_be_recorded(stack: LocalStack, name: str) -> None:
    def fail(change: Change) -> None:
        raise OSError(change.event)

    executing = Executing(stack.database_url, name)
    executing.create([{"do": "echo"}])
    own = site(stack.database_url, stack.kafka_settings, record_change=fail)
    client = browser_of(served(own), raise_server_exceptions=False)
    query = {"kind": "cancel", "query": f"workflow={name}", "reason": "x", "csrf": form_token(own, "ada")}
    assert client.post(CONFIRM, data=query).status_code == 500
    assert executing.rows("SELECT count(*) FROM workorders.bulk_jobs WHERE filter ->> 'workflow' = '" + name + "'") == [
        (0,)
    ]
    assert executing.states() == [("pending", None)]


def hold_messages(connection: Connection, hold: int, numbers: range) -> None:
    """Let a hold of a key have messages with these numbers."""
    connection.execute(
        "INSERT INTO workorders.outbox_messages (hold_id, id, event_id, bucket, topic, key, value) "
        "OVERRIDING SYSTEM VALUE SELECT holds.id, -n, gen_random_uuid(), ~bucket, topic, key, 'four' "
        "FROM workorders.outbox_holds AS holds CROSS JOIN unnest(%s::bigint[]) AS n WHERE holds.id = %s",
        [list(numbers), hold],
    )


def test_no_message_is_purged_that_came_after_the_number_was_typed(stack: LocalStack, name: str) -> None:
    def another_comes(change: Change) -> None:
        with connect(stack.database_url) as connection:
            hold_messages(connection, hold, range(1_012, 1_013))

    with connect(stack.database_url) as connection:
        hold = hold_key(connection, name)
        hold_messages(connection, hold, range(1_000, 1_012))
    own = site(stack.database_url, {}, record_change=another_comes)
    client = browser_of(served(own))
    answer = client.post(f"/workorders/outbox/holds/{hold}/purge", data={"typed": "12", "csrf": form_token(own, "ada")})
    assert answer.status_code == 400
    assert f"Hold {hold} has 13 messages now, and not 12. Nothing was deleted." in text_of(answer.text)
    with connect(stack.database_url) as connection:
        query = "SELECT count(*) FROM workorders.outbox_messages WHERE hold_id = %s"
        assert connection.execute(query, [hold]).fetchone() == (13,)
        for table, column in (("outbox_messages", "hold_id"), ("outbox_holds", "id")):
            connection.execute(f"DELETE FROM workorders.{table} WHERE {column} = %s", [hold])


def test_what_is_purged_is_seen_before(stack: LocalStack, client: TestClient) -> None:
    with connect(stack.database_url) as connection:
        hold = hold_key(connection, "seen-before", "patient-7")
        hold_messages(connection, hold, range(1, 13))
    text = text_of(client.get(f"/workorders/outbox/holds/{hold}").text)
    assert text.count("patient-7") == 1
    assert "Type the number of messages: 12" in text


@dataclass(frozen=True)
class Held:
    """An outbox with two held messages of one key, one message of another key, and a person's browser."""

    outbox: Outbox
    hold: int
    client: TestClient
    token: str
    recorded: list[Change]

    def post(self, action: str, **data: str) -> int:
        """Send a form of the hold's page, and return the status of the answer."""
        address = f"/workorders/outbox/holds/{self.hold}"
        assert self.client.get(address).status_code == 200
        return self.client.post(f"{address}/{action}", data={"csrf": self.token, **data}).status_code

    def held(self) -> int:
        """Return how many messages are held."""
        return int(self.outbox.ask("SELECT count(hold_id) FROM workorders.outbox_messages")[0][0])

    def waiting(self) -> list[str]:
        """Return the values of the messages that wait, in their order."""
        rows = self.outbox.ask(
            "SELECT convert_from(value, 'UTF8') FROM workorders.outbox_messages WHERE hold_id IS NULL ORDER BY id"
        )
        return [value for (value,) in rows]


@pytest.fixture
def held(stack: LocalStack) -> Held:
    outbox = new_outbox(stack)
    outbox.write(
        *(OutboxMessage(topic="shipments", key=key, value=value) for key, value in (("k", "1"), ("k", "2"), ("l", "3")))
    )
    ((hold,),) = outbox.ask(
        "INSERT INTO workorders.outbox_holds (kind, topic, bucket, key, reason, next_try_at) "
        "SELECT 'key', topic, bucket, key, 'too large', now() + interval '1 hour' FROM workorders.outbox_messages "
        "WHERE key = 'k' LIMIT 1 RETURNING id"
    )
    outbox.ask(
        "UPDATE workorders.outbox_messages SET hold_id = %s, bucket = ~bucket WHERE key = 'k'",
        hold,
    )
    recorded: list[Change] = []
    own = site(outbox.database_url, {}, record_change=recorded.append)
    client = browser_of(served(own))
    return Held(outbox, hold, client, form_token(own, "ada"), recorded)


def test_held_messages_that_are_released_wait_in_their_place_and_are_due(held: Held) -> None:
    assert (held.held(), held.waiting()) == (2, ["3"])
    assert held.post("release") == 303
    assert (held.held(), held.waiting()) == (0, ["1", "2", "3"])
    assert held.outbox.ask("SELECT id FROM workorders.outbox_holds") == []
    (change,) = held.recorded
    assert (change.event, change.user, change.dag_ids) == ("workorders_release_hold", "ada", ["workorders_outbox_0"])
    assert change.details == {"hold": held.hold, "topic": "shipments"}
    assert held.client.get(f"/workorders/outbox/holds/{held.hold}").status_code == 404


def test_held_messages_are_purged_after_their_number_was_typed(held: Held) -> None:
    assert [held.post("purge", typed=typed) for typed in ("", "1", "22", "two")] == [422] * 4
    assert (held.held(), held.recorded) == (2, [])
    assert held.post("purge", typed=" 2 ") == 303
    assert (held.held(), held.waiting()) == (0, ["3"])
    assert held.outbox.ask("SELECT id FROM workorders.outbox_holds") == []
    (change,) = held.recorded
    assert (change.event, change.user, change.dag_ids) == ("workorders_purge_hold", "ada", ["workorders_outbox_0"])
    assert change.details == {"hold": held.hold, "topic": "shipments", "messages": 2}


@pytest.mark.parametrize(
    ("action", "typed", "sentence"),
    [
        ("release", "", "Hold {} was released: its messages are tried again, in their place."),
        ("purge", "2", "Hold {} was purged: its messages were deleted unsent."),
    ],
)
def test_the_outbox_confirms_what_was_decided_about_a_hold_and_nothing_that_was_not(
    held: Held, action: str, typed: str, sentence: str
) -> None:
    address, expected = f"/workorders/outbox/holds/{held.hold}/{action}", sentence.format(held.hold)
    confirmed = f"/workorders/outbox?done={action}d&number={held.hold}"
    assert expected not in text_of(held.client.get(confirmed).text)
    answer = held.client.post(address, data={"csrf": held.token, "typed": typed})
    assert answer.headers["location"] == confirmed
    assert expected in text_of(held.client.get(confirmed).text)


def test_the_messages_of_a_held_topic_are_not_purged(held: Held) -> None:
    ((hold,),) = held.outbox.ask(
        "INSERT INTO workorders.outbox_holds (kind, topic, reason) "
        "VALUES ('topic', 'shipments', 'missing') RETURNING id"
    )
    assert replace(held, hold=hold).post("purge", typed="1") == 400
    assert (held.held(), held.waiting()) == (2, ["3"])


def test_a_workflow_shows_its_limits_its_waiting_keys_and_what_is_kept(
    stack: LocalStack, client: TestClient, name: str
) -> None:
    executing = Executing(
        stack.database_url,
        name,
        concurrency=5,
        ordering_key="body:/patient",
        limits={"max_waiting": 10, "max_per_day": 100},
        retention={"delete_after": "30d", "delete_errors_after": "90d"},
    )
    executing.create([{"do": "echo", "patient": "PAT-<1>"} for _ in range(3)], stream="s")
    with connect(stack.database_url) as connection:
        claiming.claim(connection, executing.workflow, limit=1, worker_id=add_worker(connection, executing.workflow))
    page = client.get(f"/workorders/workflows/{name}").text
    text = text_of(page)
    assert "runs at the same time 1 1 of 5" in text
    assert "work orders that wait reject" in text
    assert "Deleted after 30 d; those that did not succeed after 90 d" in text
    assert "the one that runs" in text
    order = re.findall(r'href="/workorders/work-orders/([^"]+)">the one that runs', page)[0]
    shown = client.get(f"/workorders/work-orders/{order}").text
    (link,) = re.findall(r'href="(/workorders/work-orders\?[^"]*ordering_key=[^"]*)"', shown)
    assert len(listed_ids(client.get(unescape(link)).text)) == 3


def test_a_large_input_is_shown_by_its_beginning_and_without_its_ordering_key(
    stack: LocalStack, client: TestClient, name: str
) -> None:
    executing = Executing(stack.database_url, name, ordering_key="body:/patient")
    executing.create([{"text": "x" * work_order.MAX_CHARACTERS, "patient": "PAT-1"}, {"patient": "PAT-2"}], stream="s")
    found = listed_ids(client.get(f"/workorders/work-orders?workflow={name}").text)
    small, large = (client.get(f"/workorders/work-orders/{id_}") for id_ in found)
    assert (small.status_code, large.status_code) == (200, 200)
    assert ("<dt>Ordering key</dt>" in small.text, "<dt>Ordering key</dt>" in large.text) == (True, False)
    assert "not all of it is shown" in text_of(large.text)
    assert large.text.count("x") < 65_536 + 1_000


def test_a_run_shows_the_beginning_of_a_large_output_and_the_end_of_a_long_log(
    stack: LocalStack, client: TestClient, name: str
) -> None:
    executing = Executing(stack.database_url, name)
    executing.create([{"do": "echo"}])
    output = json.dumps("x" * work_order.MAX_CHARACTERS).encode()
    log = "first\n" + "\n".join(["…" * 2_000] * 150) + "\nlast"
    with connect(stack.database_url) as connection:
        worker_id = add_worker(connection, executing.workflow)
        (run,) = claiming.claim(connection, executing.workflow, limit=1, worker_id=worker_id)
        lifecycle.finish(connection, worker_id, [RunResult(run_id=run.run_id, state="success", output=output, log=log)])
    page = client.get(f"/workorders/runs/{run.run_id}").text
    assert "not all of it is shown" in text_of(page)
    assert "Earlier lines are in the download" in text_of(page)
    assert ("last\n</pre>" in page, "first\n" in page) == (True, False)
    assert client.get(f"/workorders/runs/{run.run_id}/log").text == log
    assert client.get(f"/workorders/runs/{run.run_id}/output").content == output


def export_form(client: TestClient, query: str) -> dict[str, str]:
    """Return what the form that confirms an export sends."""
    fields = fields_of(client.get(f"{CONFIRM}?kind=export&{query}").text)
    return {**fields, "reason": "an audit"}


def test_an_export_is_a_file_with_everything_that_matches(client: TestClient, scene: Scene) -> None:
    query = f"workflow={scene.workflow}&since=all"
    confirm = text_of(client.get(f"{CONFIRM}?kind=export&{query}").text)
    assert "Export 339 work orders" in confirm
    answer = client.post(CONFIRM, data=export_form(client, query))
    assert answer.headers["content-disposition"] == 'attachment; filename="work-orders.jsonl"'
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"] == "sandbox"
    rows = [json.loads(line) for line in answer.text.splitlines()]
    assert len({row["id"] for row in rows}) == len(rows) == 339


def test_some_work_orders_are_exported_and_the_audit_log_names_them(stack: LocalStack, scene: Scene) -> None:
    recorded: list[Change] = []
    client = browser_of(served(site(stack.database_url, stack.kafka_settings, record_change=recorded.append)))
    listed = client.get(f"/workorders/work-orders?workflow={scene.workflow}&since=all").text
    selected = listed_ids(listed)[:2]
    confirm = client.get(f"{CONFIRM}?kind=export&selected={selected[0]}&selected={selected[1]}").text
    data = {"kind": "export", "selected": selected, "reason": "an audit", "csrf": fields_of(confirm)["csrf"]}
    answer = client.post(CONFIRM, data=data)
    assert [json.loads(line)["id"] for line in answer.text.splitlines()] == sorted(selected)
    (change,) = recorded
    assert change.event == "workorders_export"
    assert change.details == {"work_orders": sorted(selected), "reason": "an audit"}


def test_an_export_that_is_cut_off_ends_with_a_line_that_says_so(
    client: TestClient, stack: LocalStack, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Executing(stack.database_url, name).create([{"number": number} for number in range(5)])
    form = export_form(client, f"workflow={name}")
    monkeypatch.setattr(work_orders, "EXPORT_STEP", 2)
    find_matching = work_orders.find_matching

    def fail_at_the_second(*given: Any, after: Any, **named: Any) -> Any:
        if after is not None:
            raise psycopg.OperationalError("the connection is lost")
        return find_matching(*given, after=after, **named)

    monkeypatch.setattr(work_orders, "find_matching", fail_at_the_second)
    lines = [json.loads(line) for line in client.post(CONFIRM, data=form).text.splitlines()]
    assert len(lines) == 3
    assert "This file was cut off: " in lines[-1]["error"]


def open_transactions(stack: LocalStack) -> int:
    """Return how many connections of the pages have an open transaction."""
    query = "SELECT FROM pg_stat_activity WHERE application_name = 'workorders pages' AND xact_start IS NOT NULL"
    with connect(stack.database_url) as connection:
        return connection.execute(query).rowcount


def test_browsers_that_take_an_export_slowly_leave_the_pages_and_each_other_alone(
    stack: LocalStack, client: TestClient, pages_site: Site, name: str
) -> None:
    Executing(stack.database_url, name).create_text([b'{"text":"%s"}' % token_hex(500_000).encode() for _ in range(20)])
    form = export_form(client, f"workflow={name}")
    with running(served(pages_site)) as url, ExitStack() as stack_of_browsers:
        for _ in range(downloads.DOWNLOADS):
            browser = stack_of_browsers.enter_context(httpx.Client(base_url=url, timeout=60))
            stack_of_browsers.enter_context(browser.stream("POST", CONFIRM, data=form, headers=OWN))
        for _ in range(int(OF_PAGES.total_tokens) + 1):
            assert httpx.get(f"{url}/workorders/bulk", timeout=60).status_code == 200
        eventually(lambda: open_transactions(stack) == 0, seconds=60, what="the end of every transaction of the pages")
        refused = httpx.post(f"{url}{CONFIRM}", data=form, headers=OWN, timeout=60)
        assert (refused.status_code, "sends 4 exports already" in refused.text) == (503, True)
        stack_of_browsers.pop_all().close()  # the browsers leave
        eventually(partial(is_complete, url, form), seconds=60, what="a place for another browser")


def is_complete(url: str, form: dict[str, str]) -> bool:
    """Return whether an export of 20 work orders gets a place, and is complete."""
    answer = httpx.post(f"{url}{CONFIRM}", data=form, headers=OWN, timeout=60)
    return answer.status_code == 200 and len(answer.text.splitlines()) == 20


def test_a_browser_that_takes_nothing_for_long_loses_its_place(
    stack: LocalStack, client: TestClient, pages_site: Site, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Executing(stack.database_url, name).create_text([b'{"text":"%s"}' % token_hex(500_000).encode() for _ in range(20)])
    form = export_form(client, f"workflow={name}")
    monkeypatch.setattr(downloads, "MAX_SECONDS", 0.5)
    monkeypatch.setattr(downloads, "_FREE", BoundedSemaphore(1))
    with (
        running(served(pages_site)) as url,
        httpx.Client(base_url=url, timeout=60) as browser,
        browser.stream("POST", CONFIRM, data=form, headers=OWN),
    ):
        eventually(partial(is_complete, url, form), seconds=60, what="a place for another browser")


def test_a_hostile_input_is_text_and_nothing_else(client: TestClient, scene: Scene) -> None:
    listed = client.get(f"/workorders/work-orders?trigger={scene.topic[:-6]}admissions&since=all").text
    for id_ in listed_ids(listed):
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
        "/bulk/%3Cscript%3E",
        "/outbox/holds/999999999",
        "/bulk/99999999999999999999",
        "/bulk?before=99999999999999999999",
        "/kafka/%00",
        "/kafka/x/resolve?topic=%00&partition=99999999999999999999",
        "/workflows/%00",
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


def test_no_more_is_changed_than_a_person_has_seen(stack: LocalStack, name: str) -> None:
    executing = Executing(stack.database_url, name)
    executing.create([{"do": "fail", "word": "no"}, {"do": "fail", "word": "no"}])
    executing.worker().work()
    executing.create([{"do": "fail", "word": "no"}])
    recorded: list[Change] = []
    own = site(stack.database_url, stack.kafka_settings, record_change=recorded.append)
    client = browser_of(served(own))
    address = f"{CONFIRM}?kind=rerun&workflow={name}&state=failed"
    fields = fields_of(client.get(address, headers=UPDATE).text)
    assert fields["seen"] == "2"
    executing.worker().work()
    refused = client.post(CONFIRM, data={**fields, "reason": "x"})
    assert refused.status_code == 409
    assert "3 work orders match now, and the page showed 2" in text_of(refused.text)
    assert (recorded, executing.states()) == ([], [("failed", "failed")] * 3)


def test_a_rerun_says_how_many_have_no_input_any_more_and_skips_them(
    stack: LocalStack, client: TestClient, name: str
) -> None:
    executing = Executing(stack.database_url, name)
    executing.create([{"do": "echo"}] * 3)
    executing.worker().work()
    executing.create([{"do": "echo"}])
    first, second, *_ = executing.ids()
    with connect(stack.database_url) as connection:
        connection.execute(
            "UPDATE workorders.dataclips SET body = NULL, request = '{}' WHERE id = ANY (%s::uuid[])", [[first, second]]
        )
    for query in (f"workflow={name}", f"selected={first}&selected={second}"):
        text = text_of(client.get(f"{CONFIRM}?kind=rerun&{query}").text)
        assert "2 of them will be skipped, because retention has erased their input." in text
    assert "csrf" not in client.get(f"{CONFIRM}?kind=rerun&selected={first}").text
    confirm = client.get(f"{CONFIRM}?kind=rerun&workflow={name}").text
    assert "1 of them will be skipped, because they wait, run, or are parked already." in text_of(confirm)
    assert ">Run 1 from the start</button>" in confirm
    started = client.post(CONFIRM, data={**fields_of(confirm), "reason": "again"})
    assert "1 of 4 done, 3 skipped" in until_finished(client, started.headers["location"])


@pytest.mark.parametrize(
    ("address", "form"),
    [
        ("/bulk/new", "/work-orders"),
        ("/bulk/7/cancel", "/bulk/7"),
        ("/kafka/orders/resolve", "/kafka/orders"),
        ("/outbox/holds/7/release", "/outbox/holds/7"),
        ("/outbox/holds/7/purge", "/outbox/holds/7"),
    ],
)
def test_the_address_of_a_form_that_was_sent_leads_to_its_page(client: TestClient, address: str, form: str) -> None:
    answer = client.get(f"/workorders{address}")
    assert (answer.status_code, answer.headers.get("location")) == (303, f"/workorders{form}")


def test_a_change_whose_connection_is_lost_is_not_called_undone(stack: LocalStack, name: str) -> None:
    def end_the_connection(change: Change) -> None:
        with connect(stack.database_url) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity "
                "WHERE application_name = 'workorders pages'"
            )

    executing = Executing(stack.database_url, name)
    executing.create([{"do": "echo"}])
    (order,) = executing.ids()
    own = site(stack.database_url, stack.kafka_settings, record_change=end_the_connection)
    client = browser_of(served(own))
    data = {"kind": "cancel", "selected": order, "reason": "x", "csrf": form_token(own, "ada")}
    answer = client.post(CONFIRM, data=data)
    assert answer.status_code == 503
    assert "whether anything was changed is not known" in text_of(answer.text)
    assert "nothing was changed" not in text_of(answer.text)


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


@pytest.mark.parametrize(
    ("referer", "way_back"),
    [
        (
            "http://elsewhere/workorders/work-orders?state=failed&x=1",
            'href="/workorders/work-orders?state=failed&amp;x=1"',
        ),
        ("http://elsewhere/other", None),
        ("javascript:alert(1)//workorders/", None),
        ("", None),
    ],
)
def test_a_refused_form_leads_back_to_a_page_of_ours_and_to_no_other(
    client: TestClient, referer: str, way_back: str | None
) -> None:
    answer = client.post("/workorders/bulk/1/cancel", data={"csrf": "none"}, headers={"referer": referer})
    assert answer.status_code == 403
    assert ("Try again" in answer.text) == (way_back is not None)
    assert (way_back or "") in answer.text
    assert "elsewhere" not in answer.text
