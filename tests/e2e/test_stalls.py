"""A failure is a task instance that anyone can see and read; it holds up its own partition and nothing else."""

import re
from datetime import datetime

from local_stack.stack import LocalStack
from support.airflow_api import Run
from support.browser import browser_page
from support.eventually import eventually
from support.flow import SECONDS, Flow
from support.observed_trigger import Place, by_partition, some_events

TRIES = 4


def test_a_failed_task_ends_with_the_sentence(stalls: Flow, stalled: Run) -> None:
    error = stalls.api.error(stalls.create(stalled), 1)
    batch = stalls.trigger.ranges()[0]["batch_id"]
    last_line = error.splitlines()[-1]
    assert last_line.startswith(f"Trigger stalls, batch {batch}: ")
    assert re.search(
        r"e2e\.stalls 0 \[0, \d+\): offsets \[0, \d+\) were deleted by retention before they were read", error
    )
    assert "nothing was committed there" in last_line
    assert last_line.endswith("Next try in 1 s.")
    # On the page that is one long line, so the log contains it in short ones before as well.
    errors = [line for line in stalls.api.log(stalls.create(stalled), 1) if line.get("level") == "error"]
    assert errors.pop()["error_detail"]
    assert " ".join(line["event"] for line in errors).endswith(error)


def test_airflows_page_of_the_failed_task_shows_the_reason(
    airflow_stack: LocalStack, stalls: Flow, stalled: Run
) -> None:
    with browser_page() as page:
        page.goto(f"{airflow_stack.airflow_url}/dags/{stalled.dag_id}/runs/{stalled.id}/tasks/create_work_orders")
        page.get_by_text("were deleted by retention").first.wait_for()


def test_the_ledger_contains_why_the_partition_is_stalled_and_when_the_next_try_is(stalls: Flow, stalled: Run) -> None:
    row = stalls.trigger.ledger()[0]
    assert row["status"] == "stalled"
    assert "were deleted by retention" in row["last_error"]
    assert row["next_attempt_at"] is not None
    assert row["next_offset"] == 0
    assert 0 not in stalls.trigger.group_offsets()


def test_the_other_partition_of_the_failed_batch_is_ingested(
    stalls: Flow, stalled: Run, half_lost: list[Place]
) -> None:
    assert stalls.trigger.work_orders() == {1: by_partition(half_lost)[1]}
    assert stalls.trigger.ledger()[1]["status"] == "active"


def test_other_partitions_and_other_triggers_continue_meanwhile(
    stalls: Flow, stalled: Run, half_lost: list[Place], orders: Flow, ordered: list[Place]
) -> None:
    ordered += orders.trigger.produce(some_events(9, 3, first=10_000))
    more = stalls.trigger.produce((1, value) for _, value in some_events(50, 1, first=100))
    orders.until_ingested(ordered)
    wanted = by_partition([*half_lost, *more])[1]
    eventually(
        lambda: stalls.trigger.work_orders().get(1) == wanted, seconds=SECONDS, what="later batches of partition 1"
    )
    later = stalls.ingest_runs()[-1]
    eventually(
        lambda: stalls.api.task(later, "commit_offsets").state == "success", seconds=SECONDS, what="their commit"
    )
    assert stalls.trigger.group_offsets()[1] == stalls.trigger.last_stable_offsets()[1]
    assert stalls.trigger.next_offsets()[0] == 0


def test_a_failed_task_is_tried_again_after_1_2_4_and_8_seconds(stalls: Flow, stalled: Run) -> None:
    tries = stalls.api.tries(stalls.until_begun(stalled, TRIES + 1))
    for number, delay in enumerate([1, 2, 4, 8][:TRIES], start=1):
        assert stalls.api.error(stalls.create(stalled), number).endswith(f"Next try in {delay} s.")
        pause = _time(tries[number + 1]["start_date"]) - _time(tries[number]["end_date"])
        # The scheduler looks for what is due now and then, so a try may come later, never sooner.
        assert pause.total_seconds() >= delay * 0.9


def test_tries_of_a_batch_that_cannot_be_read_start_no_spark(stalls: Flow, stalled: Run) -> None:
    eventually(lambda: stalls.create(stalled).try_number > 2, seconds=SECONDS, what=f"a third try of {stalled.id}")
    assert "Spark-Submit cmd" in stalls.api.log_text(stalls.create(stalled), 1)
    assert "Spark-Submit cmd" not in stalls.api.log_text(stalls.create(stalled), 2)


def test_a_stall_that_lasts_is_alerted_by_one_of_all_tries(stalls: Flow, stalled: Run) -> None:
    eventually(
        lambda: stalls.create(stalled).try_number > TRIES, seconds=SECONDS, what=f"{TRIES + 1} tries of {stalled.id}"
    )
    # Whichever attempt at a batch of the trigger came first after two seconds.
    tasks = [stalls.create(run) for run in stalls.ingest_runs()]
    logs = [stalls.api.log_text(task, number) for task in tasks for number in range(1, task.try_number + 1)]
    (alerting,) = [log for log in logs if "Alert: " in log]
    assert alerting.count("error Alert: Trigger stalls: e2e.stalls 0 [0, ") == 1
    assert alerting.count("Paged for e2e.stalls 0, cleared: False.") == 1
    assert "were deleted by retention before they were read" in alerting


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
