"""Events in both modes of the Kafka binding have one form, with the bytes of their data."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.definitions import define
from unit.kafka.ingest.test_record_mapping import STREAM, record
from workorders.core.items import Item
from workorders.kafka.airflow.revalidation import revalidate
from workorders.kafka.formats.decoded import Headers
from workorders.kafka.formats.payloads import Payloads
from workorders.kafka.ingest.record_mapping import RecordMapping

MAPPING = RecordMapping(payloads=Payloads("cloudevents", "text"))
ATTRIBUTES = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "order.created"}
BINARY: list[tuple[str, bytes | None]] = [(f"ce_{name}", text.encode()) for name, text in ATTRIBUTES.items()]
STRUCTURED: list[tuple[str, bytes | None]] = [("content-type", b"application/cloudevents+json; charset=UTF-8")]


def event(value: bytes | None, headers: Headers) -> Item:
    """Return the item of a message."""
    return MAPPING.map_record(record(value=value, headers=headers), STREAM)


def test_the_data_of_an_event_in_binary_mode_keep_their_bytes() -> None:
    found = event(
        b'{"n": 1.10}', [*BINARY, ("ce_subject", "Zoë".encode()), ("content-type", b"application/json"), ("x", b"y")]
    )
    assert found.body is not None
    assert found.body.endswith(b',"data":{"n": 1.10}}')
    assert orjson.loads(found.body) == {
        **ATTRIBUTES, "subject": "Zoë", "datacontenttype": "application/json", "data": {"n": 1.1},
    }  # fmt: skip
    assert ["ce_id", "1"] in orjson.loads(found.request)["headers"]


@pytest.mark.parametrize(
    ("value", "content_type", "expected"),
    [
        (b"[1]", None, {"data": [1]}),
        (b"[1]", b"application/vnd.shop+json;v=1", {"data": [1]}),
        (b"a,b", b"text/csv", {"data": "a,b"}),
        (b"\xff", b"text/csv", {"data_base64": "/w=="}),
        (b"<a/>", b"application/xml", {"data_base64": "PGEvPg=="}),
        (None, None, {}),
    ],
    ids=str,
)
def test_data_of_other_types_are_what_the_json_of_cloudevents_has_for_them(
    value: bytes | None, content_type: bytes | None, expected: dict[str, Any]
) -> None:
    headers = BINARY if content_type is None else [*BINARY, ("Content-Type", content_type)]
    body = orjson.loads(event(value, headers).body or b"")
    assert {name: body[name] for name in body if name.startswith("data") and name != "datacontenttype"} == expected


def test_an_event_in_structured_mode_is_stored_byte_for_byte() -> None:
    value = orjson.dumps({**ATTRIBUTES, "data": {"n": 1}}, option=orjson.OPT_INDENT_2)
    assert event(value, STRUCTURED).body == value


@pytest.mark.parametrize(
    ("value", "headers", "code", "detail"),
    [
        (b"{}", [], "not-a-cloudevent", "the message has neither ce_ headers nor the header content-type: app"),
        (b"{}", BINARY[:3], "not-a-cloudevent", "the header ce_type is missing; the sender must set it to a text"),
        (b"{}", [*BINARY[:3], ("ce_type", b"")], "not-a-cloudevent", "the header ce_type is empty;"),
        (b"{}", [*BINARY[:3], ("ce_type", b"\xff")], "not-a-cloudevent", "a header of the event is not UTF-8"),
        (b"hello", BINARY, "not-json", "the data of the event is not JSON, and no header content-type tells"),
        (
            b"{",
            [*BINARY, ("content-type", b"application/json")],
            "not-json",
            "the data of the event is not the JSON that its content-type announces; the sender must correct either",
        ),
        (b'{"id":"1"}', STRUCTURED, "not-a-cloudevent", "the attribute specversion is missing;"),
        (
            b'{"specversion":"1.0","id":1}',
            STRUCTURED,
            "not-a-cloudevent",
            "the attribute id is a number, not a string; the sender must set it to a text",
        ),
        (b'{"specversion":null}', STRUCTURED, "not-a-cloudevent", "the attribute specversion is the word null, not a"),
        (
            b"[]",
            STRUCTURED,
            "not-a-cloudevent",
            "the event is an array, not an object; the sender must send each event",
        ),
        (
            b"[]",
            [("content-type", b"application/cloudevents-batch+json")],
            "not-a-cloudevent",
            "the message is a batch of events; the sender must send each event as a message",
        ),
        (b"{", STRUCTURED, "not-json", "unexpected end of data at byte 1"),
        (
            b"{}",
            [("content-type", b"application/cloudevents+avro")],
            "not-a-cloudevent",
            "the event is in another format",
        ),
        (None, [], "null-value", "the value is null (a tombstone)"),
    ],
    ids=str,
)
def test_what_is_no_event_is_rejected_with_its_bytes(
    value: bytes | None, headers: Headers, code: str, detail: str
) -> None:
    found = event(value, headers)
    assert found.rejection is not None
    assert (found.rejection.code, found.raw) == (code, value)
    assert found.rejection.detail.startswith(detail)


def test_a_rejected_event_is_validated_again_with_its_headers() -> None:
    found = RecordMapping().map_record(record(value=b"[1]", headers=BINARY), STREAM)
    definition = define("orders", format="cloudevents").model_dump(mode="json")
    again = revalidate(definition, found.raw, found.request)
    assert again.body == event(b"[1]", BINARY).body


names = st.sampled_from(["ce_id", "CE_ID", "ce_source", "ce_type", "ce_specversion", "ce_data", "content-type", "x"])
texts = st.sampled_from([b"", b"1", b"\xff", b"text/plain", b"application/json", b"application/cloudevents+json", None])


@given(
    st.none() | st.binary(max_size=6) | st.sampled_from([b"{}", b"[1]"]), st.lists(st.tuples(names, texts), max_size=7)
)
def test_any_headers_and_bytes_become_one_input_or_one_rejection(value: bytes | None, headers: Headers) -> None:
    found = event(value, headers)
    assert (found.body is None) != (found.rejection is None)
    assert found.rejection is None or found.raw == value
