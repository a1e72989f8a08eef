import base64
import re
import subprocess
import sys
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workorders.core.creation.json_validation import SUSPICIOUS_PATTERN
from workorders.core.items import Item, Rejection
from workorders.kafka.definition.filter import MessageFilter
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.exceptions import RegistryRefusedError, RegistryUnavailableError
from workorders.kafka.formats import payloads
from workorders.kafka.formats.decoded import Budget, Decoded, Headers
from workorders.kafka.formats.payloads import Payloads
from workorders.kafka.ingest.record_mapping import RecordMapping
from workorders.kafka.partitions import Record

PLACE = ("orders", 0)
STREAM = "orders/0"


def record(**changes: Any) -> Record:
    plain = Record("orders", 0, 7, b"k", b'{"a":1}', 1_700_000_000_000, 0, [("h", b"v")])
    return plain._replace(**changes)


def item(mapping: RecordMapping | None = None, **changes: Any) -> Item:
    return (mapping or RecordMapping()).map_record(record(**changes), STREAM)


def request(mapping: RecordMapping | None = None, **changes: Any) -> dict[str, Any]:
    found = orjson.loads(item(mapping, **changes).request)
    assert isinstance(found, dict)
    return found


def test_a_json_object_becomes_an_input_byte_for_byte() -> None:
    value = b' {"b": 1.10, "a" : [ ] }\n'
    assert item(value=value) == Item(STREAM, 7, item().request, value, None, None)


def test_the_request_tells_where_the_message_came_from() -> None:
    assert request() == {
        "topic": "orders",
        "partition": 0,
        "offset": 7,
        "key": "k",
        "timestamp": 1_700_000_000_000,
        "timestamp_type": "CreateTime",
        "headers": [["h", "v"]],
    }
    assert request(topic="50%d")["topic"] == "50%d"


def test_a_rejected_message_keeps_its_raw_bytes_and_the_reason() -> None:
    found = item(value=b"[1]")
    assert (found.body, found.raw) == (None, b"[1]")
    assert found.rejection == Rejection("not-an-object", "the value is an array, not an object")


def test_a_null_value_is_rejected_and_an_empty_one_is_something_else() -> None:
    null, empty = item(value=None), item(value=b"")
    assert (null.rejection, null.raw) == (Rejection("null-value", "the value is null (a tombstone)"), None)
    assert (empty.rejection, empty.raw) == (Rejection("not-json", "the value is empty"), b"")


@pytest.mark.parametrize(
    "value",
    [
        rb'{"a":"\u0000"}',
        b'{"a":1e-401}',
        b'{"a":0.' + b"1" * 16_384 + b"}",
        b'{"a":"' + b"x" * 20_000 + b'"}',
        b"[]",
        b"{",
        b"",
        None,
    ],
    ids=range(8),
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_value_that_is_no_input_is_rejected_alone(value: bytes | None, place: int) -> None:
    given = [record(offset=offset, value=value if offset == place else b"{}") for offset in range(3)]
    odd = [one.value is not None and re.search(SUSPICIOUS_PATTERN.encode(), one.value) is not None for one in given]
    fields: list[Any] = [(offset, *rest) for _topic, _partition, offset, *rest in given]
    found = list(RecordMapping(max_message_bytes=20_000).map_records(PLACE, fields, odd, STREAM))
    assert [one.position for one in found] == [0, 1, 2]
    assert [one.position for one in found if one.rejection is not None] == [place]
    assert found[place].raw == value


def test_an_accepted_tombstone_is_an_empty_object_that_is_marked_so() -> None:
    mapping = RecordMapping(accept_tombstones=True)
    assert item(mapping, value=None).body == b"{}"
    assert item(mapping, value=None).rejection is None
    assert request(mapping, value=None)["tombstone"] is True
    assert "tombstone" not in request(mapping)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (None, None),
        (b"", ""),
        ('Zoë "\\\n'.encode(), 'Zoë "\\\n'),
        (b"\xff\x00", {"base64": "/wA="}),
        (b"a\0b", {"base64": "YQBi"}),
        (b"\xed\xa0\x80", {"base64": "7aCA"}),
    ],
)
def test_a_key_is_text_where_it_can_be_and_base64_elsewhere(key: bytes | None, expected: object) -> None:
    assert request(key=key)["key"] == expected


def test_headers_keep_their_order_repetitions_nulls_and_bytes() -> None:
    headers = [("b", b"1"), ("a", None), ("b", b"2"), ("", b""), ("x\0", b"\xff"), ("b", b"1")]
    assert request(headers=headers)["headers"] == [
        ["b", "1"],
        ["a", None],
        ["b", "2"],
        ["", ""],
        [{"base64": "eAA="}, {"base64": "/w=="}],
        ["b", "1"],
    ]


@pytest.mark.parametrize("mapping", [RecordMapping(), RecordMapping(max_message_bytes=50)])
def test_the_keys_of_a_request_are_in_the_order_of_jsonb(mapping: RecordMapping) -> None:
    keys = list(request(mapping, key=b"k" * 50))
    assert keys == sorted(keys, key=lambda key: (len(key), key))


def test_a_header_that_carries_a_secret_is_kept_only_if_it_is_named() -> None:
    headers = [("Authorization", b"Bearer x"), ("a", b"1"), ("x-api-key", b"y")]
    assert request(headers=headers)["headers"] == [["a", "1"]]
    assert request(RecordMapping(headers=("x-api-key",)), headers=headers)["headers"] == [["x-api-key", "y"]]
    assert request(headers=headers[:1])["headers"] == []


def test_only_the_wanted_headers_are_kept() -> None:
    headers = [("b", b"1"), ("a", b"2"), ("c", b"3"), ("b", b"4")]
    assert request(RecordMapping(headers="none"), headers=headers)["headers"] == []
    assert request(RecordMapping(headers=("c", "b")), headers=headers)["headers"] == [
        ["b", "1"],
        ["c", "3"],
        ["b", "4"],
    ]
    assert request(RecordMapping(headers=("z",)), headers=headers[:1])["headers"] == []


def test_a_header_name_with_half_a_surrogate_pair_stops_nothing() -> None:
    assert request(headers=[("\ud800", b"1")])["headers"] == [[{"base64": "7aCA"}, "1"]]


@pytest.mark.parametrize(
    ("timestamp_ms", "timestamp_type", "expected"),
    [
        (0, 0, (0, "CreateTime")),
        (-1, -1, (None, "NoTimestampType")),
        (None, -1, (None, "NoTimestampType")),
        (9_404_668_800_000_000, 1, (9_404_668_800_000_000, "LogAppendTime")),
        (2**63 - 1, 0, (2**63 - 1, "CreateTime")),
        (5, 9, (5, "NoTimestampType")),
    ],
)
def test_any_timestamp_is_kept_as_milliseconds(
    timestamp_ms: int | None, timestamp_type: int, expected: tuple[int | None, str]
) -> None:
    found = request(timestamp_ms=timestamp_ms, timestamp_type=timestamp_type)
    assert (found["timestamp"], found["timestamp_type"]) == expected


def test_a_value_over_the_limit_is_rejected_with_its_bytes() -> None:
    value = b'{"a":"' + b"x" * 1100 + b'"}'
    found = item(RecordMapping(max_message_bytes=1024), value=value)
    assert found.rejection == Rejection("too-large", "the value has 1108 bytes, more than max_message_bytes (1024)")
    assert found.raw == value
    assert orjson.loads(found.request)["key"] == "k"


def test_a_key_over_the_limit_is_left_out_and_counted() -> None:
    found = item(RecordMapping(max_message_bytes=1024), key=b"x" * 2000)
    assert found.rejection is not None
    assert found.rejection.code == "too-large"
    assert found.raw == b'{"a":1}'
    left = orjson.loads(found.request)
    assert (left["offset"], left["key"], left["headers"]) == (7, None, [])
    assert left["omitted_bytes"] > 2000


def test_the_mapping_follows_the_definition() -> None:
    definition = KafkaTriggerDefinition.model_validate(
        {
            "name": "orders",
            "workflow": "ship",
            "topics": ["orders"],
            "headers": ["h"],
            "tombstones": "accept",
            "max_message_bytes": "1MiB",
        }
    )
    assert RecordMapping.of(definition) == RecordMapping(("h",), accept_tombstones=True, max_message_bytes=1_048_576)


def test_the_module_is_imported_without_pyarrow() -> None:
    code = "import sys; sys.modules['pyarrow'] = None; import workorders.kafka.ingest.record_mapping"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})


keys = st.none() | st.binary(max_size=12) | st.text(max_size=8).map(str.encode)
odd_numbers = st.sampled_from(
    [b"1e-16383", b"1e-400", b"1E+0401", b"0e9999999999", b"0E+1", b"1e400", b"-0", b"NaN", b"12e-12345"]
)
odd_strings = st.sampled_from(
    [rb'"\u0000"', rb'"\\u0000"', rb'"\ud800"', b'"e-12345"', b'"\xff"', b'"\0"', '"é"'.encode()]
)
values = (
    st.none()
    | st.binary(max_size=30)
    | st.lists(odd_numbers | odd_strings, max_size=4).map(lambda parts: b'{"a":[' + b",".join(parts) + b"]}")
)
headers = st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), keys), max_size=4)
records = st.builds(
    Record,
    topic=st.just("orders"),
    partition=st.just(0),
    offset=st.integers(0, 2**63 - 1),
    key=keys,
    value=values,
    timestamp_ms=st.none() | st.integers(-(2**63), 2**63 - 1),
    timestamp_type=st.integers(-1, 1),
    headers=headers,
)
settings = {
    "headers": st.sampled_from(["all", "none", ("a", "b")]),
    "accept_tombstones": st.booleans(),
    "max_message_bytes": st.sampled_from([20, 200, 10_000]),
    "payloads": st.none()
    | st.just(Payloads("json", "text", json_schema='{"maxProperties": 1}'))
    | st.just(Payloads("cloudevents", "text")),
}
mappings = st.builds(RecordMapping, **settings)
FILTERS = [
    {"header:a": "1"},
    {"header:A": ["1", ""]},
    {"header:a": {"not": "1"}, "header:b": {"exists": True}},
    {"header:a": {"exists": False}},
    {"key": ["", "k", "0"]},
    {"key": {"exists": True}, "header:a": {"not": "x"}},
    {"body:/a": {"not": 1}},
    {"request:/tombstone": {"exists": False}, "body": {"exists": True}},
]
filtering = st.builds(RecordMapping, **settings, filter=st.sampled_from(FILTERS).map(MessageFilter.parse))


@given(records, mappings)
def test_every_record_becomes_exactly_one_of_input_and_rejection(one: Record, mapping: RecordMapping) -> None:
    found = mapping.map_record(one, STREAM)
    assert (found.body is None) != (found.rejection is None)
    assert (found.stream, found.position) == (STREAM, one.offset)
    assert found.rejection is None or found.raw == one.value
    assert isinstance(orjson.loads(found.request), dict)


@given(keys)
def test_any_key_can_be_had_back_from_the_request(key: bytes | None) -> None:
    found = request(key=key)["key"]
    if isinstance(found, dict):
        assert base64.b64decode(found["base64"]) == key
    else:
        assert (None if found is None else found.encode()) == key


class Appending:
    """Decodes a text to JSON that Postgres cannot store."""

    def decode(self, payload: bytes, _headers: Headers, _budget: Budget) -> Decoded:
        return Decoded(orjson.dumps({"a": payload.decode() + "\0"}), b'{"id":1}')


class Panicking(Appending):
    """Raises what it is told to."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def rule(self, _payload: bytes) -> str:
        return "the rule"

    def decode(self, payload: bytes, _headers: Headers, _budget: Budget) -> Decoded:
        raise self.error


PanicException = type("PanicException", (BaseException,), {})


@pytest.mark.parametrize("error", [ValueError("quoted"), MemoryError(), RecursionError(), PanicException("quoted")])
def test_whatever_a_decoder_raises_is_a_rejection(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    monkeypatch.setattr(payloads, "_decoder", lambda *_: Panicking(error))
    found = item(RecordMapping(payloads=Payloads("avro", "text", "{}")), value=b"raw")
    assert found.rejection is not None
    assert found.rejection.code == "undecodable"
    assert found.rejection.detail.startswith(f"the value violates the rule ({type(error).__name__}); the sender must")


@pytest.mark.parametrize("error", [RegistryUnavailableError("away"), RegistryRefusedError("no"), KeyboardInterrupt()])
def test_what_is_no_fault_of_the_message_is_raised(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    monkeypatch.setattr(payloads, "_decoder", lambda *_: Panicking(error))
    with pytest.raises(type(error)):
        item(RecordMapping(payloads=Payloads("avro", "text", "{}")), value=b"raw")


def test_a_rejected_value_keeps_the_bytes_that_it_came_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payloads, "_decoder", lambda *_: Appending())
    found = item(RecordMapping(payloads=Payloads("avro", "avro", "{}")), value=b"raw")
    assert found.rejection is not None
    assert (found.rejection.code, found.body, found.raw) == ("nul-character", None, b"raw")
    assert orjson.loads(found.request)["key"] == "k"
