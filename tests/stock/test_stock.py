"""Airflow's own settings, and the Dags of the README's trigger; each test continues where the one before has ended."""

import json
import re
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import psycopg
from playwright.sync_api import expect

from local_stack.stack import LocalStack
from support.airflow_api import AirflowApi, Task
from support.browser import browser_page
from support.dag_table import created_paused, paused_for_readme
from support.eventually import eventually
from support.flow import SECONDS, Flow
from support.observed_trigger import ObservedTrigger, some_events

OURS = {
    "orders": "<name>",
    "yearly": "<name>",
    "started": "<name>",
    "ship": "<name>",
    "mistaken": "<file>",
}
TRIES = 3


def our_dags(api: AirflowApi) -> dict[str, bool]:
    """Return the ids of our Dags, and whether each is paused."""
    return {dag["dag_id"]: dag["is_paused"] for dag in api.get("/dags", tags="workorders", limit=100)["dags"]}


def listed(dag_id: str) -> str:
    """Return a Dag's id as the documents list it."""
    if dag_id.startswith("workorders_outbox_"):
        return "workorders_outbox_<shard>"
    name, _, rest = dag_id.partition("_")
    return f"{OURS[name]}_{rest}" if name in OURS else dag_id


def states(stack: LocalStack, trigger: str) -> Counter[str]:
    """Return how many work orders of a trigger are in each state."""
    query = """
        SELECT orders.state::text FROM workorders.work_orders AS orders
        JOIN workorders.triggers ON triggers.id = orders.trigger_id WHERE triggers.name = %s
        """
    with psycopg.connect(stack.database_url) as connection:
        return Counter(state for (state,) in connection.execute(query, (trigger,)))


def only_task(api: AirflowApi, dag_id: str) -> Task:
    """Return the task of the only run of a Dag with one task, when it has ended."""

    def ended() -> Task | None:
        tasks = [task for run in api.runs(dag_id) for task in api.tasks(run)]
        return next((task for task in tasks if task.state in {"success", "failed"}), None)

    task = eventually(ended, seconds=SECONDS, what=f"the end of a task of {dag_id}")
    assert task is not None
    return task


def test_dags_are_created_paused_as_the_documents_list_them(api: AirflowApi) -> None:
    wanted = {*paused_for_readme(), "workorders_maintenance", "mistaken_refused", "workorders_outbox_0"}
    made = eventually(
        lambda: dags if wanted <= set(dags := our_dags(api)) else None,
        seconds=SECONDS,
        what=f"the Dags {sorted(wanted)}",
    )
    assert made is not None
    assert {listed(dag_id): paused for dag_id, paused in made.items()}.items() <= created_paused().items()


def test_a_file_with_a_mistake_is_red_without_being_unpaused(api: AirflowApi) -> None:
    task = only_task(api, "mistaken_refused")
    assert task.state == "failed"
    assert "mistaken.yaml, line 5: max_mesages: there is no such field; did you mean max_messages?" in api.error(task)


def test_the_trigger_of_the_readme_carries_messages_to_the_function(
    stock_stack: LocalStack, api: AirflowApi, orders: Flow
) -> None:
    # Messages that are there before anybody listens are the first to be read.
    places = orders.trigger.produce(some_events(30, 1))
    for dag_id in paused_for_readme():
        api.set_paused(dag_id, paused=False)
    orders.until_ingested(places)
    eventually(
        lambda: states(stock_stack, "orders") == {"success": 30}, seconds=SECONDS, what="the success of all work orders"
    )


def test_a_schedule_creates_its_work_order_and_a_person_another_one(stock_stack: LocalStack, api: AirflowApi) -> None:
    api.set_paused("yearly_cron", paused=False)
    assert only_task(api, "yearly_cron").state == "success"
    # As the form sends it: with the logical date "now", from which Airflow infers the interval that was over last.
    api.trigger("yearly_cron", {}, logical_date=datetime.now(UTC).isoformat())
    eventually(lambda: sum(states(stock_stack, "yearly").values()) == 2, seconds=SECONDS, what="two work orders")


def test_a_callback_is_called_once_per_stall_however_often_the_task_is_up_for_retry(
    api: AirflowApi, orders: Flow, calls: Path
) -> None:
    with orders.held_back(some_events(20, 1)):
        orders.trigger.delete_before(0, orders.trigger.last_stable_offsets()[0])
    run = eventually(
        lambda: next(iter(orders.unfinished()), None), seconds=SECONDS, what="an ingest run that does not end"
    )
    assert run is not None
    eventually(lambda: orders.create(run).try_number > TRIES, seconds=SECONDS, what=f"{TRIES + 1} tries")
    orders.until_failed(run)
    called = Counter(calls.read_text(encoding="utf-8").splitlines())
    assert called["alerted orders_ingest create_work_orders"] == 1
    assert called["up_for_retry orders_ingest create_work_orders"] >= TRIES
    # The state of a Dag run that waits for a next try is no failure: neither its callback nor its alert comes.
    assert [line for line in called if line.startswith("failed ")] == ["failed mistaken_refused read_trigger_file"]
    assert {found.state for found in orders.ingest_runs() if found.id == run.id} == {"running"}
    assert "Alert: Trigger orders: orders 0 [" in "".join(logs_of(api, orders.create(run)))


def logs_of(api: AirflowApi, task: Task) -> list[str]:
    """Return the log of each try of a task."""
    return [api.log_text(task, number) for number in range(1, task.try_number + 1)]


def test_a_person_logs_in_to_airflow_and_reruns_by_the_pages_under_that_name(
    stock_stack: LocalStack, api: AirflowApi
) -> None:
    assert httpx.get(f"{stock_stack.airflow_url}/workorders/", trust_env=False).status_code == httpx.codes.UNAUTHORIZED
    login = stock_stack.airflow_login
    assert login is not None
    name, password = login
    with browser_page() as page:
        page.goto(stock_stack.airflow_url)
        page.locator("input[name=username]").fill(name)
        page.locator("input[name=password]").fill(password)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("link", name="Work orders").first.click()
        ours = page.frame_locator('iframe[title="Work orders"]')
        ours.get_by_role("link", name="Work orders", exact=True).click()
        ours.locator("select[name=state]").select_option("success")
        ours.get_by_role("button", name="Search", exact=True).click()
        expect(page).to_have_url(re.compile("state=success"))
        shared = page.url
        page.reload()
        assert page.url == shared
        ours.locator("tbody th a").first.click()
        expect(page).to_have_url(re.compile("/plugin/workorders/workorders/work-orders/[0-9a-f-]+$"))
        ours.get_by_role("link", name="Rerun…").click()
        ours.get_by_label("Reason").fill("once more")
        ours.get_by_role("button", name="Run 1 from the start").click()
        expect(ours.locator("dt:text-is('Requested by') + dd")).to_have_text(name)
        expect(ours.get_by_text("1 of 1 done.")).to_be_visible()
    with psycopg.connect(stock_stack.database_url) as connection:
        rows = connection.execute("SELECT actor FROM workorders.runs WHERE reason = 'once more'").fetchall()
    assert rows == [(name,)]
    (entry,) = api.get("/eventLogs", event="workorders_rerun")["event_logs"]
    assert (entry["owner"], json.loads(entry["extra"])["reason"]) == (name, "once more")


def test_nothing_of_ours_is_missing_or_unreadable(stock_stack: LocalStack, api: AirflowApi) -> None:
    ours = [error for error in api.import_errors() if error["bundle_name"] == "dags"]
    assert ours == []
    unfound = re.compile(r"Could not load provider module \S*workorders\S*")
    logs = [path for path in stock_stack.logs.rglob("*") if path.is_file()]
    assert any("airflow-tasks" in path.parts for path in logs)
    texts: dict[str, Any] = {path.name: path.read_text(encoding="utf-8", errors="replace") for path in logs}
    assert {name: unfound.findall(text) for name, text in texts.items() if unfound.search(text)} == {}


def workorders(stack: LocalStack, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the command line where Airflow's components run, as a person does."""
    command = [sys.executable, "-m", "workorders.cli.main", *arguments]
    return subprocess.run(command, env=stack.environment(), capture_output=True, text=True, check=False)


def test_a_start_names_what_is_missing_and_otherwise_ends_when_latest_is_an_offset(
    stock_stack: LocalStack, api: AirflowApi
) -> None:
    started = ObservedTrigger.on_stack(stock_stack, "started", "started")
    needed = {"started_ingest", "ship_runs"}
    eventually(lambda: needed <= set(our_dags(api)), seconds=SECONDS, what="the Dags of the trigger")
    api.set_paused("ship_runs", paused=False)
    api.set_paused("started_ingest", paused=True)
    refused = workorders(stock_stack, "start", "started")
    assert refused.returncode == 1, refused.stderr
    assert "wrong  Dag started_ingest: is paused\n       airflow dags unpause started_ingest\n" in refused.stdout
    assert "wrong  topics started: Kafka at " in refused.stdout
    assert "started was not started." in refused.stderr
    assert our_dags(api)["started_listener"]
    api.set_paused("started_ingest", paused=False)
    started.create_topic(1)
    started.produce(some_events(3, 1))
    done = workorders(stock_stack, "start", "started", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    assert (answer["started"], answer["positions"]) == (True, ["started 0 continues at offset 3."])
    started.produce(some_events(2, 1))
    eventually(
        lambda: states(stock_stack, "started") == {"success": 2}, seconds=SECONDS, what="the success of two work orders"
    )


def test_the_doctor_names_the_file_with_a_mistake_and_a_trigger_without_a_dag(stock_stack: LocalStack) -> None:
    found = workorders(stock_stack, "doctor", "--json")
    assert found.returncode == 1, found.stderr
    checks = {check["check"]: check for check in json.loads(found.stdout)}
    assert not checks["Dag mistaken_refused"]["ok"]
    assert {checks[name]["ok"] for name in ("Airflow's triggerer", "tables", "rights", "trigger yearly", "Java")} == {
        True
    }
    assert "Airflow has parsed no Dag missing_listener" in workorders(stock_stack, "doctor", "missing").stdout
