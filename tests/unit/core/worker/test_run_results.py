"""Known secrets, texts without them, and the span of a run on its way to a collector, by OTLP over HTTP."""

import json
import os
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from support.otlp_collector import OtlpCollector
from support.spans import PARENT, TRACE, send_spans_to
from workorders.core.runs.claiming import ClaimedRun
from workorders.core.runs.lifecycle import RunResult
from workorders.core.worker.captured_text import printable
from workorders.core.worker.child import STEP
from workorders.core.worker.ipc import Frame
from workorders.core.worker.json_values import dumps, loads
from workorders.core.worker.run_results import Mask, RunSpans, finished_step, mask_output, secrets_of

PASSWORD = "p@ss w0rd/ü"
ODD_PASSWORD = 'pä"ss\\word'
OUTPUT_MASK = Mask(secrets_of({"DB_PASSWORD": ODD_PASSWORD, "PIN_TOKEN": "12345", "SHARED_SECRET": '1,"b":2'}))


def claimed(request: bytes = b"{}") -> ClaimedRun:
    return ClaimedRun(uuid4(), uuid4(), 1, None, "orders", "orders/0@id", 7, request, b"{}")


def ended(run: ClaimedRun) -> RunResult:
    now = datetime.now(UTC)
    return RunResult(run_id=run.run_id, state="success", started_at=now, finished_at=now)


def test_a_collector_gets_the_span_with_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    with OtlpCollector() as collector:
        exporter = OTLPSpanExporter(endpoint=f"{collector.url}/v1/traces")
        provider = send_spans_to(SimpleSpanProcessor(exporter), monkeypatch)
        spans, run = RunSpans("ship"), claimed(f'{{"headers":[["traceparent","00-{TRACE}-{PARENT}-01"]]}}'.encode())
        traceparent = spans.begin(run)
        spans.end(ended(run))
        provider.shutdown()
    (span,) = collector.spans
    assert (span.trace_id.hex(), span.parent_span_id.hex(), span.name) == (TRACE, PARENT, "run ship")
    assert traceparent == f"00-{TRACE}-{span.span_id.hex()}-01"


def test_without_a_provider_a_run_has_no_span_and_its_request_is_not_read() -> None:
    spans, run = RunSpans("ship"), claimed(b"not even JSON")
    assert spans.begin(run) is None
    spans.end(ended(run))


def test_secrets_are_known_by_the_names_of_variables_and_inside_of_connections() -> None:
    environment = {
        "MY_API_KEY": "key-12345",
        "WORKORDERS_DATABASE_URL": "postgresql://nurse:url%40word@db/workorders?sslpassword=sslword",
        "AIRFLOW_CONN_KAFKA": json.dumps(
            {"password": "conn-word", "extra": {"sasl.password": "sasl-word", "group.id": "readers"}}
        ),
        "AIRFLOW_CONN_NESTED": json.dumps({"extra": json.dumps({"secret_key": "nested-word"})}),
        "PLAIN": "host=db password='quoted word' user=nurse",
        "HOME": "/home/nurse",
    }
    found = secrets_of(environment)
    assert {"key-12345", "url@word", "url%40word", "sslword", "conn-word", "sasl-word", "nested-word"} <= found
    assert "quoted word" in found
    assert not {"nurse", "readers", "/home/nurse", "db"} & found


def test_a_secret_is_masked_in_every_form_in_which_it_may_be_written() -> None:
    mask = Mask(secrets_of({"DB_PASSWORD": PASSWORD}))
    for text in (PASSWORD, "p%40ss%20w0rd%2F%C3%BC", json.dumps(PASSWORD), json.dumps(PASSWORD, ensure_ascii=False)):
        masked = mask(f"before {text} after")
        assert masked.replace('"', "") == "before *** after"


@pytest.mark.parametrize("user", ["a", "ab", "abc", "nurse", "nurse-1"])
@pytest.mark.parametrize("encode", [b64encode, urlsafe_b64encode])
def test_a_secret_is_masked_in_the_header_of_http_basic(user: str, encode: Callable[[bytes], bytes]) -> None:
    mask = Mask(secrets_of({"DB_PASSWORD": PASSWORD}))
    header = encode(f"{user}:{PASSWORD}".encode()).decode()
    masked = mask(f"Basic {header}")
    assert "***" in masked
    assert len(masked) < len("Basic ") + len(user) * 2 + 8


def test_a_secret_that_is_no_utf8_is_masked_as_a_log_shows_it() -> None:
    mask = Mask(secrets_of({"DB_PASSWORD": os.fsdecode(b"pass\xffword")}))
    assert mask("it is " + printable(b"pass\xffword")) == "it is ***"


def test_of_two_secrets_the_longer_one_is_masked_whole() -> None:
    assert Mask(["secret", "secret-and-more"])("a secret-and-more b secret") == "a *** b ***"


def test_what_is_too_short_to_be_told_from_a_word_is_left_alone() -> None:
    mask = Mask(secrets_of({"TOKEN": "test"}))
    assert mask("a test") == "a test"
    assert mask.max_secret_bytes == 0


@pytest.mark.parametrize(
    ("returned", "kept"),
    [
        (f"it is {ODD_PASSWORD}.", "it is ***."),
        ({"dsn": [{"password": ODD_PASSWORD}], "n": 1}, {"dsn": [{"password": "***"}], "n": 1}),
        ({ODD_PASSWORD: 1}, {"***": 1}),
        # JSON in JSON, as what another service answered: the secret is written in yet another form.
        ({"answer": json.dumps({"p": ODD_PASSWORD})}, {"answer": '{"p": "***"}'}),
        (12345, "***"),
        ({"pin": 12345, "text": "x12345x"}, {"pin": "***", "text": "x***x"}),
    ],
)
def test_a_secret_is_masked_wherever_it_is(returned: Any, kept: Any) -> None:
    assert loads(mask_output(dumps(returned), OUTPUT_MASK)) == kept


@pytest.mark.parametrize(
    "returned",
    [
        {"n": 1, "text": "nothing"},
        # What looks like a secret in the text alone, across values or as a part of a number, is none.
        {"a": 1, "b": 2},
        [9912345],
        [1234567890123456789012345, 0.1, 1e300, None, True, 'quoted "word" \\ ü 🦉'],
        "",
    ],
)
def test_an_output_without_a_secret_stays_as_it_is_to_the_byte(returned: Any) -> None:
    assert mask_output(dumps(returned), OUTPUT_MASK) == dumps(returned)


def test_what_cannot_be_looked_through_is_masked_whole() -> None:
    deep = b"[" * 100_000 + b'"12345"' + b"]" * 100_000
    assert mask_output(deep, OUTPUT_MASK) == b'"***"'


def test_a_step_without_a_commit_of_its_own_is_of_its_run_and_of_this_clock() -> None:
    run, before = claimed(), datetime.now(UTC)
    step = finished_step(run, Frame([STEP, str(run.run_id), "charge", None], b"1"))
    assert (step.name, step.made_by, step.committed_elsewhere) == ("charge", run.run_id, False)
    assert before <= step.finished_at <= datetime.now(UTC)
    with pytest.raises(ValueError, match="other fields"):
        finished_step(run, Frame([STEP, str(run.run_id), "charge", 0.0, str(uuid4()), False], b"1"))
