"""People cancel and rerun work orders by the forms, and see what came of it."""

from typing import Any

from local_stack.stack import LocalStack
from support.airflow_api import AirflowApi, Run
from support.eventually import eventually
from support.flow import SECONDS, Flow
from support.observed_trigger import Place
from workorders.core.bulk import jobs
from workorders.core.history import work_orders
from workorders.core.history.filters import Filter
from workorders.core.postgres.connection import connect


def submit(api: AirflowApi, kind: str, **fields: Any) -> tuple[Run, str]:
    """Send a form, wait until its run has ended, and return the run with its log."""
    dag_id = f"workorders_{kind}"
    sent = api.trigger(dag_id, {"reason": "a test", **fields})

    def ended() -> Run | None:
        return next((run for run in api.runs(dag_id) if run.id == sent and run.state in {"success", "failed"}), None)

    run = eventually(ended, seconds=SECONDS, what=f"the end of {kind}")
    assert run is not None
    return run, api.log_text(api.task(run, "run_job"))


def test_a_rerun_is_counted_first_then_done_and_is_a_job_with_who_and_why(
    airflow_stack: LocalStack, api: AirflowApi, orders: Flow, ordered: list[Place]
) -> None:
    wanted = Filter(trigger="orders", stream="e2e.orders/0@", to_position=20)
    asked = {"trigger": "orders", "stream": "e2e.orders/0@", "to_position": 20}

    def states() -> dict[str, int]:
        with connect(airflow_stack.database_url) as connection:
            return work_orders.count_by_state(connection, wanted)

    before = states()
    waiting = before["pending"]
    run, _ = submit(api, "cancel", **asked, state="pending", dry_run=False)
    assert run.state == "success"
    assert states()["cancelled"] == waiting
    run, log = submit(api, "rerun", **asked, state="cancelled")
    assert run.state == "success"
    assert f"{waiting} work orders match in all. Nothing was changed" in log
    assert states()["cancelled"] == waiting
    run, log = submit(api, "rerun", **asked, state="cancelled", dry_run=False)
    assert run.state == "success"
    assert f"(rerun) is finished: {waiting} of {waiting} done." in log
    after = states()
    assert after.pop("requeued") == before.pop("requeued", 0) + before.pop("pending")
    assert after == before
    with connect(airflow_stack.database_url) as connection:
        job = jobs.list_jobs(connection, limit=1)[0]
    assert (job.kind, job.state, job.done, job.reason) == ("rerun", "finished", waiting, "a test")
    assert job.actor
    run, _ = submit(api, "rerun", id="no-id", dry_run=False)
    assert run.state == "failed"
    assert api.error(api.task(run, "run_job")) == "id: expected the id of a work order, got 'no-id'."
