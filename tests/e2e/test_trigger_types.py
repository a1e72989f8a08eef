"""Work orders that no message made: sent to the real API server, due by the real scheduler, asked for by a form."""

import hashlib
import hmac
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import psycopg
from psycopg.rows import dict_row

from local_stack.stack import LocalStack
from support.airflow_api import AirflowApi, Run
from support.eventually import eventually
from support.flow import SECONDS

HERE = Path(__file__).parent
SECRET = "known-to-the-shop-alone"
BODY = b'{"order": 17}'


def work_orders(stack: LocalStack, trigger: str) -> list[dict[str, Any]]:
    with psycopg.connect(stack.database_url, row_factory=dict_row) as connection:
        return connection.execute(
            """
            SELECT work_orders.id::text AS id, dataclips.body, dataclips.request
            FROM workorders.work_orders
            JOIN workorders.triggers ON triggers.id = work_orders.trigger_id
            JOIN workorders.dataclips ON dataclips.id = work_orders.id
            WHERE triggers.name = %s ORDER BY work_orders.id
            """,
            (trigger,),
        ).fetchall()


def ended(api: AirflowApi, dag_id: str) -> list[Run]:
    return [run for run in api.runs(dag_id) if run.state in {"success", "failed"}]


def test_a_webhook_a_schedule_and_a_form_create_work_orders(airflow_stack: LocalStack, api: AirflowApi) -> None:
    _webhook(airflow_stack)
    _form(airflow_stack, api)
    _schedule(airflow_stack, api)


def _webhook(stack: LocalStack) -> None:
    command = [sys.executable, "-m", "workorders.cli.main", "webhooks", "apply", str(HERE / "triggers" / "shop.yaml")]
    subprocess.run(command, env=stack.environment(), check=True)
    url = f"{stack.airflow_url}/workorders/webhooks/shop/orders"
    signature = f"sha256={hmac.new(SECRET.encode(), BODY, hashlib.sha256).hexdigest()}"

    def send(headers: Mapping[str, str]) -> httpx.Response:
        return httpx.post(url, content=BODY, headers=headers, timeout=60, trust_env=False)

    before = send({"X-Hub-Signature-256": signature})
    assert (before.status_code, before.json()["error"]) == (503, "cannot-authenticate")
    connection = {"connection_id": "shop_webhook", "conn_type": "generic", "password": SECRET}
    httpx.post(
        f"{stack.airflow_url}/api/v2/connections", json=connection, timeout=60, trust_env=False
    ).raise_for_status()
    forged = {"X-Hub-Signature-256": signature[:-1] + ("0" if signature[-1] != "0" else "1")}
    # That a secret could not be had is remembered for some seconds.
    eventually(lambda: send(forged).status_code != 503, seconds=SECONDS, what="the secret of the webhook")
    wrong = send(forged)
    assert (wrong.status_code, wrong.json()["error"]) == (401, "not-authenticated")
    assert work_orders(stack, "shop") == []
    made = send({"X-Hub-Signature-256": signature, "Idempotency-Key": "order-17", "Authorization": "Bearer hunter2"})
    assert made.status_code == 201
    (found,) = work_orders(stack, "shop")
    assert (found["id"], found["body"]) == (made.json()["work_order_id"], {"order": 17})
    assert found["request"]["path"] == "/workorders/webhooks/shop/orders"
    assert "hunter2" not in str(found["request"])
    assert signature not in str(found["request"])
    again = send({"X-Hub-Signature-256": signature, "Idempotency-Key": "order-17"})
    assert (again.status_code, again.json()["work_order_id"]) == (200, found["id"])


def _form(stack: LocalStack, api: AirflowApi) -> None:
    sent = api.trigger("asked_manual", {"body": {"order": 18}, "reason": "lost in the shop"})
    run = eventually(
        lambda: next((run for run in ended(api, "asked_manual") if run.id == sent), None),
        seconds=SECONDS,
        what="the end of a form's run",
    )
    assert run is not None
    assert run.state == "success"
    (found,) = work_orders(stack, "asked")
    assert found["body"] == {"order": 18}
    assert found["request"]["reason"] == "lost in the shop"
    assert found["request"]["actor"]


def _schedule(stack: LocalStack, api: AirflowApi) -> None:
    # Another run is due if the tests run while it is half past two in Berlin.
    run, *_ = eventually(lambda: ended(api, "nightly_cron"), seconds=SECONDS, what="the end of a scheduled run")
    assert run.state == "success"
    found, *_ = work_orders(stack, "nightly")
    assert found["body"] == {"region": "north"}
    assert found["request"]["scheduled_for"][11:] in {"00:30:00Z", "01:30:00Z"}
    before = api.task(run, "create_work_order").try_number
    api.clear_task(run, "create_work_order")

    def repeated() -> bool:
        task = api.task(run, "create_work_order")
        return task.try_number > before and task.state == "success"

    eventually(repeated, seconds=SECONDS, what="the end of a cleared task")
    time = found["request"]["scheduled_for"]
    assert [made for made in work_orders(stack, "nightly") if made["request"]["scheduled_for"] == time] == [found]
    assert "exists already; nothing was created" in api.log_text(api.task(run, "create_work_order"))
