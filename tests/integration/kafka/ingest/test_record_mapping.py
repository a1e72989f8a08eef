"""What the mapping accepts is what Postgres takes: tried on the real one."""

from collections.abc import Iterator

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from local_stack.stack import LocalStack
from workorders.core.items import Item
from workorders.kafka.ingest.record_mapping import RecordMapping
from workorders.kafka.partitions import Record

pytestmark = pytest.mark.integration

FEW_SECONDS = settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.fixture(scope="module")
def connection(stack: LocalStack) -> Iterator[psycopg.Connection]:
    with psycopg.connect(stack.database_url, autocommit=True) as connection:
        yield connection


def takes(connection: psycopg.Connection, text: bytes) -> bool:
    try:
        connection.execute("SELECT convert_from(%b, 'UTF8')::jsonb", (text,))
    except psycopg.DatabaseError:
        return False
    return True


def mapped(
    value: bytes | None, key: bytes | None = b"k", headers: list[tuple[str, bytes | None]] | None = None
) -> Item:
    record = Record("orders", 0, 7, key, value, 1_700_000_000_000, 0, headers or [])
    return RecordMapping().map_record(record, "orders/0")


def in_object(text: str) -> bytes:
    return b'{"a":' + text.encode() + b"}"


BORDERS = [
    ("0." + "1" * 16383, "0." + "1" * 16384),
    ("0." + "0" * 16383, "0." + "0" * 16384),
    ("0." + "1" * 15983 + "e-400", "0." + "1" * 15984 + "e-400"),
    (r'"\\u0000"', r'"\\\u0000"'),
    (r'"\ud83d\ude00"', r'"\ud83d\ud83d"'),
    ('"\\t"', '"\t"'),
]


@pytest.mark.parametrize(("inside", "outside"), BORDERS)
def test_the_border_is_where_postgres_draws_it(connection: psycopg.Connection, inside: str, outside: str) -> None:
    assert takes(connection, in_object(inside))
    assert mapped(in_object(inside)).rejection is None
    assert not takes(connection, in_object(outside))
    assert mapped(in_object(outside)).rejection is not None


def test_the_deepest_accepted_nesting_is_taken(connection: psycopg.Connection) -> None:
    deepest = b'{"a":' * 1024 + b"1" + b"}" * 1024
    assert mapped(deepest).rejection is None
    assert takes(connection, deepest)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
digits = st.text("0123456789", min_size=1, max_size=12)
numbers = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "-", "+"]),
    digits | st.sampled_from(["0", "1"]),
    st.just("") | digits.map(".{}".format),
    st.just("") | st.builds("{}{}{}".format, st.sampled_from("eE"), st.sampled_from(["", "+", "-"]), digits),
)
escapes = st.lists(
    st.sampled_from(
        ["\\", "\\\\", "\\u0000", "\\ud800", "\\udc00", "\\uD83D\\uDE00", "u0000", '\\"', "\\n", "\\x", "e"]
    )
).map('"{}"'.format)
pieces = st.sampled_from(
    ['{"a":', "{", "}", "[", "]", ",", ":", '"', '"a"', "1", "NaN", "null", " ", "\ufeff", "\0", "/"]
)
rubbish = (
    st.lists(numbers, min_size=1, max_size=4).map(lambda parts: in_object("[" + ",".join(parts) + "]"))
    | escapes.map(in_object)
    | escapes.map(lambda text: b"{" + text.encode() + b":1}")
    | st.lists(pieces | numbers | escapes, max_size=10).map(lambda parts: "".join(parts).encode())
    | st.binary(max_size=40)
)


@st.composite
def mutations(draw: st.DrawFn) -> bytes:
    """Valid JSON with a few bytes changed, put in or taken out."""
    import json

    text = bytearray(
        json.dumps({"a": draw(json_values)}, ensure_ascii=draw(st.booleans())).encode(errors="surrogatepass")
    )
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(text)))
        text[place : place + draw(st.integers(0, 2))] = draw(st.binary(max_size=2))
    return bytes(text)


@FEW_SECONDS
@given(value=rubbish | mutations())
def test_postgres_takes_every_body_that_is_accepted(connection: psycopg.Connection, value: bytes) -> None:
    item = mapped(value)
    assert item.body is None or takes(connection, item.body)


NARROWER_THAN_POSTGRES = {"not-an-object", "number-out-of-range", "nested-too-deep", "too-large"}


@FEW_SECONDS
@given(value=rubbish | mutations())
def test_nothing_is_rejected_that_postgres_takes_but_for_the_documented_codes(
    connection: psycopg.Connection, value: bytes
) -> None:
    rejection = mapped(value).rejection
    if rejection is not None and rejection.code not in NARROWER_THAN_POSTGRES:
        assert not takes(connection, value)


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@FEW_SECONDS
@given(
    key=st.none() | st.binary(max_size=20),
    headers=st.lists(st.tuples(names, st.none() | st.binary(max_size=20)), max_size=4),
    value=st.none() | st.binary(max_size=5),
)
def test_postgres_takes_every_request(
    connection: psycopg.Connection, key: bytes | None, headers: list[tuple[str, bytes | None]], value: bytes | None
) -> None:
    assert takes(connection, mapped(value, key, headers).request)
