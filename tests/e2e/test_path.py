"""From a Kafka topic to work orders, when all goes well, by submitted applications (`make up SPARK=submit`)."""

from support.flow import Flow
from support.observed_trigger import INVALID, Place


def test_every_message_has_one_work_order_and_every_commit_follows(orders: Flow, ordered: list[Place]) -> None:
    assert len(ordered) == 600 + len(INVALID)
    assert orders.trigger.has_all(ordered)
    assert orders.trigger.next_offsets() == orders.trigger.last_stable_offsets()
    assert orders.trigger.group_offsets() == orders.trigger.next_offsets()


def test_messages_that_cannot_be_an_input_are_rejected_and_kept_while_their_run_succeeds(
    orders: Flow, ordered: list[Place]
) -> None:
    rejections = orders.trigger.rejections()
    assert set(rejections.values()) == set(INVALID.items())
    assert set(rejections) <= set(ordered)
    assert {run.state for run in orders.ingest_runs()} == {"success"}


def test_an_ingest_run_is_noted_with_its_ranges_and_its_log_ends_with_their_table(
    orders: Flow, ordered: list[Place]
) -> None:
    ranges = orders.trigger.ranges()
    assert ranges
    logs = {run.id: orders.api.log_text(orders.create(run)) for run in orders.ingest_runs()}
    notes = {run.id: run.note or "" for run in orders.ingest_runs()}
    for range_ in ranges:
        run_id = f"batch_{range_['batch_id']}"
        offsets = f"[{range_['start_offset']}, {range_['end_offset']})"
        assert f"e2e.orders {range_['partition']} {offsets}" in notes[run_id]
        table = [line.split() for line in logs[run_id].splitlines() if offsets.split(maxsplit=1)[0] in line]
        cells = ["e2e.orders", str(range_["partition"]), *offsets.split(), str(range_["created"])]
        assert any(_holds(line, [*cells, str(range_["rejected"])]) and line[-1] == "done" for line in table)


def test_the_listener_waits_in_the_triggerer_and_starts_again(orders: Flow, ordered: list[Place]) -> None:
    orders.until_waiting()
    finished = orders.finished_listener_runs()
    assert finished
    for run in finished:
        task = orders.api.task(run, orders.wait_task)
        assert task.state == "success"
        # A worker would have left its process id and its host.
        assert (task.pid, task.hostname) == (None, "")
        assert "(ID " in orders.api.log_text(task)
        assert "Task instance is in running state" not in orders.api.log_text(task)


def _holds(line: list[str], cells: list[str]) -> bool:
    return any(line[start : start + len(cells)] == cells for start in range(len(line)))
