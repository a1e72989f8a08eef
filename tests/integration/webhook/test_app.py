from base64 import b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, LiteralString
from uuid import UUID

import psycopg
import pytest

from local_stack.stack import LocalStack
from support.webhooks import SECRET, Webhooks, now_text, sign, sign_standard
from workorders.core import workflows
from workorders.core.admission import duplicates
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.history import work_orders as history
from workorders.core.history.filters import Filter
from workorders.core.postgres.connection import Connection
from workorders.core.runs import claiming, lifecycle
from workorders.core.runs.lifecycle import RunResult
from workorders.core.workers import add_worker
from workorders.webhook import app, handler
from workorders.webhook.authentication import Secret

pytestmark = pytest.mark.integration

# A server that is asked to end a session answers before it has.
END_SESSIONS = """
    SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name = 'workorders webhook'
"""
BY_KEY = {"type": "api_key", "connection": "shop"}


def work_orders(connection: Connection, name: str) -> list[history.WorkOrderSummary]:
    """Return a trigger's work orders; none for a trigger that was never registered."""
    found = connection.execute("SELECT 1 FROM workorders.triggers WHERE name = %s", (name,)).fetchone()
    listed = history.list_work_orders(connection, Filter(trigger=name)) if found else []
    connection.rollback()
    return listed


def request_of(connection: Connection, id_: str) -> dict[str, Any]:
    row = connection.execute("SELECT request FROM workorders.dataclips WHERE id = %s", (UUID(id_),)).fetchone()
    connection.rollback()
    assert row is not None
    return dict(row[0])


def test_a_json_object_becomes_a_work_order_and_the_answer_names_it(
    webhooks: Webhooks, connection: Connection, name: str
) -> None:
    webhooks.define(name)
    answer = webhooks.post(name, b'{"order": 17}')
    assert answer.status_code == 201
    (listed,) = work_orders(connection, name)
    assert answer.json() == {"work_order_id": str(listed.id), "state": "pending"}
    assert answer.headers["x-work-order-id"] == str(listed.id)
    assert (listed.workflow, listed.state) == ("admit", "pending")
    body = history.get_work_order(connection, listed.id).body
    assert body is not None
    assert '"order": 17' in body


def test_the_request_keeps_what_was_asked_for_and_no_secret(
    webhooks: Webhooks, connection: Connection, name: str
) -> None:
    webhooks.define(name, headers=["X-Shop", "traceparent"])
    answer = webhooks.post(
        name, X_Shop="north", Traceparent="00-1-2-01", Authorization="Basic aHVudGVyMg==", Cookie="hunter2", X_Odd="1"
    )
    kept = request_of(connection, answer.json()["work_order_id"])
    assert (kept["method"], kept["path"]) == ("POST", f"/{name}")
    assert sorted(kept["headers"]) == [["traceparent", "00-1-2-01"], ["x-shop", "north"]]
    assert kept["remote_address"] == "testclient"
    assert kept["received_at"].endswith("Z")
    assert set(kept) == {"method", "path", "headers", "remote_address", "received_at"}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "not-json"),
        (b"{broken", 400, "not-json"),
        (b'{"a": "\xff"}', 400, "not-utf8"),
        (rb'{"a": "\u0000"}', 400, "nul-character"),
        (b'{"a": [1e-9999]}', 400, "number-out-of-range"),
        (b"[1, 2]", 422, "not-an-object"),
        (b"null", 422, "not-an-object"),
    ],
)
def test_what_is_no_json_object_is_refused_with_the_reason_and_creates_nothing(
    webhooks: Webhooks, connection: Connection, name: str, *, body: bytes, status: int, code: str
) -> None:
    webhooks.define(name)
    answer = webhooks.post(name, body)
    assert (answer.status_code, answer.json()["error"]) == (status, code)
    assert answer.json()["reason"].endswith("nothing was created.")
    assert "work_order_id" not in answer.json()
    assert work_orders(connection, name) == []


def test_a_body_that_is_too_large_is_refused_also_without_a_declared_length(
    webhooks: Webhooks, connection: Connection, name: str
) -> None:
    webhooks.define(name, max_body_bytes=20)
    body = b'{"a": "0123456789012345"}'
    assert webhooks.post(name, body).status_code == 413
    in_parts = webhooks.client.post(f"/{name}", content=(bytes([byte]) for byte in body))
    assert (in_parts.status_code, in_parts.json()["error"]) == (413, "too-large")
    assert webhooks.post(name, b'{"a": "01234567890"}').status_code == 201
    assert len(work_orders(connection, name)) == 1


def test_only_post_is_taken(webhooks: Webhooks, name: str) -> None:
    webhooks.define(name)
    answer = webhooks.client.get(f"/{name}")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert answer.json()["error"] == "method-not-allowed"


def test_an_undefined_path_is_unknown(webhooks: Webhooks, name: str) -> None:
    answer = webhooks.post(name)
    assert (answer.status_code, answer.json()["error"]) == (404, "unknown-webhook")


Prove = Callable[[bytes, str, str], dict[str, str]]


def basic(password: str) -> str:
    return "Basic " + b64encode(f"ada:{password}".encode()).decode()


PROOFS: dict[str, tuple[tuple[str, dict[str, str]], Prove]] = {
    "api_key": (("api_key", {}), lambda _, secret, __: {"X_Api_Key": secret}),
    "basic": (("basic", {}), lambda _, secret, __: {"Authorization": basic(secret)}),
    "hmac": (
        ("hmac", {"header": "X-Hub-Signature-256", "prefix": "sha256="}),
        lambda body, secret, _: {"X_Hub_Signature_256": f"sha256={sign(body, secret)}"},
    ),
    "hmac with a time": (
        ("hmac", {"timestamp_header": "X-Time", "tolerance": "1m"}),
        lambda body, secret, at: {"X_Time": at, "X_Signature": sign(at.encode() + b"." + body, secret)},
    ),
    "stripe": (
        ("stripe", {}),
        lambda body, secret, at: {"Stripe_Signature": f"t={at},v1={sign(f'{at}.'.encode() + body, secret)}"},
    ),
    "slack": (
        ("slack", {}),
        lambda body, secret, at: {
            "X_Slack_Request_Timestamp": at,
            "X_Slack_Signature": f"v0={sign(f'v0:{at}:'.encode() + body, secret)}",
        },
    ),
}
"""How a webhook's file names a method, and the headers by which a caller proves itself with a body, a secret, and a
Unix time."""


class TestWhoMayCall:
    @pytest.mark.parametrize("kind", PROOFS)
    def test_a_caller_that_proves_itself_is_taken_and_any_other_is_not(
        self, webhooks: Webhooks, connection: Connection, name: str, kind: str
    ) -> None:
        (type_, fields), prove = PROOFS[kind]
        webhooks.define(name, authentication={"type": type_, "connection": "shop", **fields})
        body = b'{"type": "event_callback"}'
        right = prove(body, SECRET, now_text())
        wrong = [prove(body, "another", now_text()), {}, {key: value[:-1] for key, value in right.items()}]
        if kind not in {"api_key", "basic"}:
            wrong += [prove(b"{}", SECRET, now_text()), prove(body, SECRET, str(int(now_text()) - 400))]
        if kind == "hmac":
            wrong.pop()  # it has no time
        for headers in wrong:
            answer = webhooks.post(name, body, Content_Type="application/json", **headers)
            assert (answer.status_code, answer.json()["error"]) == (401, "not-authenticated"), headers
        assert work_orders(connection, name) == []
        assert webhooks.post(name, body, Content_Type="application/json", **right).status_code == 201
        (listed,) = work_orders(connection, name)
        assert (listed.workflow, listed.state) == ("admit", "pending")

    def test_a_standard_webhook_that_is_sent_again_is_one_work_order_also_by_the_previous_secret(
        self, webhooks: Webhooks, connection: Connection, name: str
    ) -> None:
        old, new = "b2xk", "bmV3"
        webhooks.secrets |= {"old": Secret("", f"whsec_{old}"), "new": Secret("", f"whsec_{new}")}
        method = {"type": "standard_webhooks", "connection": "new", "previous_connection": "old"}
        webhooks.define(name, authentication=method)
        event = {"Webhook_Id": "msg_1", "Webhook_Timestamp": now_text()}
        answers = [
            webhooks.post(name, b"{}", **event, Webhook_Signature=sign_standard(key, event, b"{}"))
            for key in (old, new, "b3RoZXI=")
        ]
        assert [answer.status_code for answer in answers] == [201, 200, 401]
        (listed,) = work_orders(connection, name)
        assert {answer.headers["x-work-order-id"] for answer in answers[:2]} == {str(listed.id)}
        assert request_of(connection, str(listed.id))["key"] == "msg_1"

    @pytest.mark.parametrize("connection_id", ["nowhere", "empty"])
    def test_without_the_secret_no_caller_is_admitted_and_all_are_told_to_retry(
        self, webhooks: Webhooks, name: str, connection_id: str
    ) -> None:
        webhooks.secrets["empty"] = Secret("", "")
        webhooks.define(name, authentication={"type": "api_key", "connection": connection_id})
        answer = webhooks.post(name, X_Api_Key="")
        assert (answer.status_code, answer.json()["error"]) == (503, "cannot-authenticate")
        assert int(answer.headers["retry-after"]) > 0

    def test_no_answer_and_no_log_has_a_secret(
        self, webhooks: Webhooks, name: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        webhooks.define(name, authentication={"type": "api_key", "connection": "shop"})
        answers = [webhooks.post(name, X_Api_Key="hunter2"), webhooks.post(name, b"[]", X_Api_Key=SECRET)]
        texts = caplog.text + "".join(answer.text + str(answer.headers) for answer in answers)
        assert "was refused with 401" in texts
        assert "hunter2" not in texts
        assert SECRET not in texts


class TestKeys:
    def test_the_same_key_gets_the_same_work_order(self, webhooks: Webhooks, connection: Connection, name: str) -> None:
        webhooks.define(name)
        long = "k" * 3000
        first = webhooks.post(name, Idempotency_Key=long)
        again = webhooks.post(name, b'{"a":2}', Idempotency_Key=long)
        other = webhooks.post(name, Idempotency_Key="other")
        assert [answer.status_code for answer in (first, again, other)] == [201, 200, 201]
        assert again.json() == first.json()
        assert len(work_orders(connection, name)) == 2
        assert request_of(connection, other.json()["work_order_id"])["key"] == "other"

    def test_a_repeat_of_a_key_is_counted(self, webhooks: Webhooks, connection: Connection, name: str) -> None:
        webhooks.define(name)
        first, *_ = (webhooks.post(name, Idempotency_Key="a") for _ in range(3))
        assert duplicates.summary(connection, UUID(first.json()["work_order_id"])).ignored == 2

    def test_two_webhooks_may_use_one_key(self, webhooks: Webhooks, name: str) -> None:
        webhooks.define(name)
        webhooks.define(f"{name}-2")
        assert [webhooks.post(path, Idempotency_Key="a").status_code for path in (name, f"{name}-2")] == [201, 201]

    def test_callers_at_once_with_one_key_get_one_work_order(
        self, webhooks: Webhooks, connection: Connection, name: str
    ) -> None:
        webhooks.define(name)
        with ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(lambda _: webhooks.post(name, Idempotency_Key="a"), range(12)))
        assert sorted(answer.status_code for answer in answers) == [200] * 11 + [201]
        assert len({answer.json()["work_order_id"] for answer in answers}) == 1
        assert len(work_orders(connection, name)) == 1

    def test_a_repeat_by_the_triggers_own_key_gets_the_first_work_order(
        self, webhooks: Webhooks, connection: Connection, name: str
    ) -> None:
        webhooks.define(name, idempotency={"key": "body:/id", "window": "1h"})
        first = webhooks.post(name, b'{"id": 1}')
        again = webhooks.post(name, b'{"id": 1, "late": true}')
        assert (first.status_code, again.status_code) == (201, 200)
        assert again.json()["work_order_id"] == first.json()["work_order_id"] == again.headers["x-work-order-id"]
        newest, _ = work_orders(connection, name)
        assert again.json() == {**again.json(), "state": "duplicate", "duplicate": str(newest.id)}

    def test_a_repeat_that_is_ignored_gets_the_first_work_order_and_leaves_none(
        self, webhooks: Webhooks, connection: Connection, name: str
    ) -> None:
        webhooks.define(name, idempotency={"key": "body:/id", "window": "1h", "on_duplicate": "ignore"})
        first = webhooks.post(name, b'{"id": 1}')
        again = webhooks.post(name, b'{"id": 1, "late": true}', Idempotency_Key="a")
        assert (first.status_code, again.status_code, again.json()) == (201, 200, first.json())
        assert len(work_orders(connection, name)) == 1


def limit(connection: Connection, name: str, on_reached: str) -> None:
    definition = WorkflowDefinition.model_validate(
        {"name": name, "callable": "a.module:function", "limits": {"max_waiting": 1, "on_reached": on_reached}}
    )
    workflows.register(connection, definition)
    connection.commit()


class TestLimits:
    def test_beyond_a_limit_that_waits_the_caller_is_told_to_retry(
        self, webhooks: Webhooks, connection: Connection, name: str
    ) -> None:
        limit(connection, name, "wait")
        webhooks.define(name, workflow=name)
        taken, refused = webhooks.post(name), webhooks.post(name, Idempotency_Key="a")
        assert (taken.status_code, refused.status_code, refused.json()["error"]) == (201, 429, "limit-reached")
        assert int(refused.headers["retry-after"]) > 0
        assert "Nothing was created" in refused.json()["reason"]
        assert len(work_orders(connection, name)) == 1
        limit(connection, name, "reject")
        assert webhooks.post(name, Idempotency_Key="a").status_code == 201

    def test_beyond_a_limit_that_rejects_the_caller_learns_that_it_is_kept_and_does_not_run(
        self, webhooks: Webhooks, connection: Connection, name: str
    ) -> None:
        limit(connection, name, "reject")
        webhooks.define(name, workflow=name)
        webhooks.post(name)
        answer = webhooks.post(name)
        assert (answer.status_code, answer.json()["state"], answer.json()["error"]) == (201, "rejected", "run-limit")
        assert answer.json()["reason"]


def test_a_key_is_known_as_long_as_its_webhook_defines(webhooks: Webhooks, connection: Connection, name: str) -> None:
    webhooks.define(name, idempotency_key_window="1h")
    first, again = (webhooks.post(name, Idempotency_Key="a") for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200)
    connection.execute("UPDATE workorders.idempotency_keys SET expires_at = expires_at - interval '1 h'")
    connection.commit()
    assert webhooks.post(name, Idempotency_Key="a").status_code == 201
    webhooks.define(name, idempotency_key_window=None)
    webhooks.post(name, Idempotency_Key="b")
    ends = connection.execute(
        """
        SELECT expires_at FROM workorders.idempotency_keys
        JOIN workorders.triggers ON triggers.id = trigger_id WHERE triggers.name = %s ORDER BY expires_at
        """,
        (name,),
    ).fetchall()
    assert [end is None for (end,) in ends] == [False, True]


def test_while_the_database_is_unavailable_the_caller_is_told_to_retry(webhooks: Webhooks, name: str) -> None:
    webhooks.define(name, database_connection="away")
    answer = webhooks.post(name)
    assert (answer.status_code, answer.json()["error"]) == (503, "database-unavailable")
    assert int(answer.headers["retry-after"]) > 0


@pytest.mark.parametrize("known", [True, False])
def test_while_the_database_takes_no_writes_the_caller_is_told_to_retry(
    webhooks: Webhooks, connection: Connection, name: str, *, known: bool
) -> None:
    """As during a fail-over, when a connection still leads to the server that was the primary."""
    webhooks.define(name)
    if known:  # what is written next is then a work order, and not the trigger
        assert webhooks.post(name).status_code == 201
    before = work_orders(connection, name)
    webhooks.take_no_writes("workorders_db")
    answer = webhooks.post(name)
    assert (answer.status_code, answer.json()["error"]) == (503, "database-unavailable")
    assert int(answer.headers["retry-after"]) > 0
    # The connection is not kept, so the next request gets to a server that takes writes.
    assert webhooks.post(name).status_code == 201
    assert len(work_orders(connection, name)) == len(before) + 1


@pytest.mark.parametrize(
    ("failing", "expected"),
    [
        # No retry will ever store it: a caller that is told to retry would do so indefinitely.
        ("SELECT repeat('x', 2000000000)", (422, "not-storable")),
        ("SELECT '[1'::jsonb", (422, "not-storable")),
        # The database is there and answers: an operator must change something, and the log tells what.
        ("SET LOCAL statement_timeout = 50; SELECT pg_sleep(60)", (503, "not-set-up")),
        ("SET LOCAL ROLE pg_monitor; SELECT FROM workorders.triggers", (503, "not-set-up")),
    ],
)
def test_an_error_that_no_retry_heals_is_not_taken_for_an_unavailable_database(
    webhooks: Webhooks, name: str, monkeypatch: pytest.MonkeyPatch, failing: LiteralString, expected: tuple[int, str]
) -> None:
    monkeypatch.setattr(handler, "create_one", lambda connection, *_, **__: connection.execute(failing))
    webhooks.define(name)
    answer = webhooks.post(name)
    assert (answer.status_code, answer.json()["error"]) == expected
    monkeypatch.undo()
    assert webhooks.post(name).status_code == 201


def test_a_database_that_airflow_does_not_know_is_for_its_operators_to_set_up(webhooks: Webhooks, name: str) -> None:
    webhooks.define(name, database_connection="nowhere")
    answer = webhooks.post(name)
    assert (answer.status_code, answer.json()["error"]) == (503, "not-set-up")
    assert "cannot be read" in answer.json()["reason"]


def test_a_connection_that_died_between_two_requests_is_replaced(
    webhooks: Webhooks, stack: LocalStack, name: str
) -> None:
    webhooks.define(name)
    assert webhooks.post(name).status_code == 201
    with psycopg.connect(stack.database_url, autocommit=True) as own:
        own.execute(END_SESSIONS)
    assert webhooks.post(name).status_code == 201


def test_a_trigger_that_a_restored_database_lacks_is_registered_again(
    webhooks: Webhooks, stack: LocalStack, name: str
) -> None:
    webhooks.define(name)
    assert webhooks.post(name).status_code == 201
    with psycopg.connect(stack.database_url, autocommit=True) as own:
        # To restore a database, its connections must end; the trigger is missing there, as under another name.
        own.execute("UPDATE workorders.triggers SET name = name || '-of-later' WHERE name = %s", [name])
        own.execute(END_SESSIONS)
    assert webhooks.post(name).status_code == 201


def test_a_name_that_another_type_has_is_refused_and_logged_with_the_reason(
    webhooks: Webhooks, connection: Connection, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    connection.execute(
        """
        WITH workflow AS (INSERT INTO workorders.workflows (name) VALUES (%(name)s) RETURNING id)
        INSERT INTO workorders.triggers (name, type, workflow_id, definition)
        SELECT %(name)s, 'another', id, '{}' FROM workflow
        """,
        {"name": name},
    )
    connection.commit()
    webhooks.define(name)
    assert (webhooks.post(name).status_code, work_orders(connection, name)) == (503, [])
    assert "exists with type another and cannot become webhook" in caplog.text


class TestAfterCompletion:
    def finish(self, connection: Connection, name: str, state: str) -> None:
        (listed,) = work_orders(connection, name)
        connection.execute("UPDATE workorders.work_orders SET state = %s WHERE id = %s", (state, listed.id))
        connection.commit()

    def test_at_the_time_limit_the_answer_is_the_id(
        self, webhooks: Webhooks, connection: Connection, name: str
    ) -> None:
        webhooks.define(name, reply="after_completion", reply_timeout="300ms")
        answer = webhooks.post(name)
        assert (answer.status_code, answer.json()["state"]) == (202, "pending")
        assert answer.json()["work_order_id"] == str(work_orders(connection, name)[0].id)

    @pytest.mark.parametrize(
        ("state", "codes", "code"),
        [("success", {}, 200), ("success", {"success_code": 201}, 201), ("failed", {}, 500), ("killed", {}, 500)],
    )
    def test_the_answer_is_how_it_ended(
        self, webhooks: Webhooks, connection: Connection, name: str, *, state: str, codes: dict[str, int], code: int
    ) -> None:
        webhooks.define(name, reply="after_completion", reply_timeout="20s", **codes)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(webhooks.post, name)
            while not work_orders(connection, name):
                assert not waiting.done()
            self.finish(connection, name, state)
            answer = waiting.result()
        assert (answer.status_code, answer.json()["state"]) == (code, state)
        assert answer.headers["x-work-order-id"] == answer.json()["work_order_id"]

    def test_what_is_parked_is_not_finished(self, webhooks: Webhooks, name: str) -> None:
        sequence = {"key": "body:/k", "number": "body:/n"}
        webhooks.define(name, reply="after_completion", reply_timeout="500ms", sequence=sequence)
        answer = webhooks.post(name, b'{"k": "a", "n": 5}')
        assert (answer.status_code, answer.json()["state"]) == (202, "parked")

    def test_what_a_limit_turns_away_is_answered_with_the_reason(
        self, webhooks: Webhooks, connection: Connection, name: str
    ) -> None:
        limit(connection, name, "reject")
        webhooks.define(name, workflow=name)
        webhooks.post(name)
        webhooks.define(name, workflow=name, reply="after_completion", failure_code=409)
        answer = webhooks.post(name)
        assert (answer.status_code, answer.json()["state"], answer.json()["error"]) == (409, "rejected", "run-limit")
        assert answer.json()["reason"]

    def test_a_repeat_waits_for_the_first_work_order(
        self, webhooks: Webhooks, connection: Connection, name: str
    ) -> None:
        key = {"key": "body:/id", "window": "1h"}
        webhooks.define(name, idempotency=key)
        first = webhooks.post(name, b'{"id": 1}')
        self.finish(connection, name, "success")
        webhooks.define(name, reply="after_completion", idempotency=key, authentication=BY_KEY)
        again = webhooks.post(name, b'{"id": 1}', X_Api_Key=SECRET)
        assert (first.status_code, again.status_code, again.json()["state"]) == (201, 200, "success")
        assert again.json()["work_order_id"] == first.json()["work_order_id"]

    def test_the_same_key_waits_for_the_same_work_order(
        self, webhooks: Webhooks, connection: Connection, name: str
    ) -> None:
        webhooks.define(name, reply="after_completion", reply_timeout="100ms", authentication=BY_KEY)
        first = webhooks.post(name, Idempotency_Key="a", X_Api_Key=SECRET)
        self.finish(connection, name, "success")
        webhooks.define(name, reply="after_completion", authentication=BY_KEY)
        again = webhooks.post(name, Idempotency_Key="a", X_Api_Key=SECRET)
        assert (first.status_code, again.status_code) == (202, 200)
        assert again.json()["state"] == "success"
        assert again.json()["work_order_id"] == first.json()["work_order_id"]

    def raise_in_the_run(self, connection: Connection, name: str) -> None:
        """End the runs of a workflow as a function that raises an exception; nothing is tried again."""
        workflows.register(
            connection, WorkflowDefinition.model_validate({"name": name, "callable": "a.module:function"})
        )
        workflow = workflows.find(connection, name)
        worker_id = add_worker(connection, workflow)
        claimed = claiming.claim(connection, workflow, limit=10, worker_id=worker_id)
        lifecycle.start(connection, worker_id, [run.run_id for run in claimed])
        results = [
            RunResult(run_id=run.run_id, state="failed", error_type="KeyError", error="no card 4711") for run in claimed
        ]
        lifecycle.finish(connection, worker_id, results)
        connection.commit()

    @pytest.mark.parametrize(
        ("fields", "told"),
        [
            ({"authentication": "public"}, False),
            ({"authentication": "public", "reply_with_errors": True}, True),
            ({"authentication": BY_KEY}, True),
            ({"authentication": BY_KEY, "reply_with_errors": False}, False),
        ],
    )
    def test_the_text_of_an_exception_is_sent_to_callers_who_may_see_it(
        self, webhooks: Webhooks, connection: Connection, name: str, *, fields: dict[str, Any], told: bool
    ) -> None:
        webhooks.define(name, workflow=name, reply="after_completion", reply_timeout="20s", **fields)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(webhooks.post, name, X_Api_Key=SECRET)
            while not work_orders(connection, name):
                assert not waiting.done()
            self.raise_in_the_run(connection, name)
            answer = waiting.result()
        assert (answer.status_code, answer.json()["state"]) == (500, "failed")
        assert (answer.json().get("error"), "4711" in answer.text) == (("KeyError", True) if told else (None, False))

    @pytest.mark.parametrize("authentication", ["public", {"type": "hmac", "connection": "shop"}])
    @pytest.mark.parametrize("idempotency", [None, {"key": "body:/id", "window": "1h"}])
    def test_no_caller_fetches_the_output_of_another_one_by_a_key(
        self, webhooks: Webhooks, connection: Connection, name: str, *, authentication: Any, idempotency: Any
    ) -> None:
        """By one that was guessed, or put to a signed request that a stranger has seen, or by the request itself."""
        body = b'{"id":1}'
        fields = {"workflow": name, "authentication": authentication, "idempotency": idempotency}
        webhooks.define(name, **fields)
        sent = {"X_Signature": sign(body), "Idempotency_Key": "order-17"}
        if idempotency is not None:
            del sent["Idempotency_Key"]
        first = webhooks.post(name, body, **sent)
        self.raise_in_the_run(connection, name)
        webhooks.define(name, reply="after_completion", reply_with_errors=True, **fields)
        answer = webhooks.post(name, body, **sent)
        assert (answer.status_code, answer.json()["work_order_id"]) == (200, first.json()["work_order_id"])
        assert "4711" not in answer.text

    def test_a_caller_too_many_is_not_kept_waiting(
        self, webhooks: Webhooks, connection: Connection, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(app, "MAX_WAITING", 0)
        webhooks.define(name, reply="after_completion", reply_timeout="5m")
        answer = webhooks.post(name)
        assert (answer.status_code, answer.json()["state"]) == (202, "pending")
        assert "Too many callers wait" in answer.json()["reason"]
        assert len(work_orders(connection, name)) == 1


def test_a_webhook_that_is_switched_off_tells_its_callers_to_come_again(
    webhooks: Webhooks, connection: Connection, name: str
) -> None:
    webhooks.define(name, enabled=False)
    answer = webhooks.post(name)
    assert (answer.status_code, answer.json()["error"]) == (503, "disabled")
    assert int(answer.headers["retry-after"]) > 0
    assert work_orders(connection, name) == []
    webhooks.define(name, enabled=True)
    assert webhooks.post(name).status_code == 201


def test_a_definition_that_changes_counts_at_once(webhooks: Webhooks, connection: Connection, name: str) -> None:
    webhooks.define(name)
    assert webhooks.post(name).status_code == 201
    webhooks.define(name, path="elsewhere/now", workflow="another")
    assert webhooks.post(name).status_code == 404
    assert webhooks.post("elsewhere/now").status_code == 201
    assert {row.workflow for row in work_orders(connection, name)} == {"admit", "another"}
    del webhooks.stored[name]
    assert webhooks.post("elsewhere/now").status_code == 404


def test_the_caller_of_a_webhook_with_a_mistake_is_told_to_retry_and_of_another_path_that_it_is_unknown(
    webhooks: Webhooks, name: str
) -> None:
    webhooks.define(name)
    webhooks.define(f"{name}-b", reply_timeuot=1)
    assert webhooks.post(name).status_code == 201
    answer = webhooks.post(f"{name}-b")
    assert (answer.status_code, answer.json()["error"]) == (503, "not-known-now")
    assert int(answer.headers["retry-after"]) > 0
    assert webhooks.post(f"{name}-c").json()["error"] == "unknown-webhook"
