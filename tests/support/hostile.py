"""Draws messages that were made to hurt: JSON at every limit, what is no JSON, and keys and headers to match."""

from hypothesis import strategies as st

from workorders.kafka.partitions import Record

#: Around each limit of doubles, of Postgres' numeric, and of the rule for bodies.
_EXPONENTS = (0, 9, 10, 99, 300, 308, 309, 324, 325, 399, 400, 401, 999, 9999, 16383, 16384, 1073741823, 1073741824)
_FAR_EXPONENTS = ("9" * 30, "9" * 5000, "0" * 5000 + "1")
_INTEGERS = ("0", "1", "9" * 19, "9" * 308, "9" * 309, "1" + "0" * 20_000)
_FRACTIONS = ("", ".0", ".5", "." + "1" * 399, "." + "0" * 16383, "." + "1" * 16384)

exponents = st.builds(
    "{}{}{}{}".format,
    st.sampled_from("eE"),
    st.sampled_from(["", "+", "-"]),
    st.sampled_from(["", "0", "000"]),
    st.sampled_from([*map(str, _EXPONENTS), *_FAR_EXPONENTS]),
)
numbers = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "-"]),
    st.sampled_from(_INTEGERS),
    st.sampled_from(_FRACTIONS),
    st.just("") | exponents,
)
strings = st.sampled_from(
    [
        '""',
        r'"\u0000"',
        r'"\\u0000"',
        r'"\ud83d"',
        r'"\ud83d\ude00"',
        '"\0"',
        '"\x7f\x80\u2028"',
        r'"\"\\\/\b\f\n\r\t"',
        '"1e-99999,"',
        '"' + "w" * 3_000 + '"',
        '"' + "\u0390 " * 30_000 + '"',
        '"' + "x" * 300_000 + '"',
        '"' + r"\\" * 20_000 + '"',
        '"' + " ".join(map(str, range(20_000))) + '"',
        "\"' :* & | ! <-> \\\\'\"",
    ]
)


def _repeated(value: str, times: int) -> str:
    return "[" + ",".join([value] * min(times, 2_000_000 // (len(value) + 1))) + "]"


def _nested(value: str, levels: int, opening: str, closing: str) -> str:
    return opening * levels + value + closing * levels


scalars = numbers | strings | st.sampled_from(["null", "true", "NaN", "-Infinity", "{}", "[]", "nope", ""])
values = (
    scalars
    | st.builds(_repeated, numbers | strings, st.sampled_from([2, 100, 2_622, 100_000]))
    | st.builds(
        _nested,
        scalars,
        st.sampled_from([100, 1022, 1023, 1024, 20_000]),
        st.sampled_from(['{"a":', "["]),
        st.just(""),
    )
    | st.builds(_nested, scalars, st.sampled_from([100, 1022, 1023, 1024, 20_000]), st.just("["), st.just("]"))
    | st.builds(_nested, scalars, st.sampled_from([100, 1022, 1023, 1024]), st.just('{"a":'), st.just("}"))
)
names = strings | st.sampled_from(['"id"', '"a"', '"' + "k" * 100_000 + '"', "1"])
objects = st.lists(st.builds("{}:{}".format, names, values), max_size=4).map(lambda pairs: "{" + ",".join(pairs) + "}")
identified = st.builds('{{"id":{},"id":{},"a":{}}}'.format, scalars, scalars, values)
texts = st.one_of(objects, identified, identified, values, st.builds("\ufeff{}".format, objects))
#: What a producer may send as a value.
messages = (
    texts.map(lambda text: text.encode("utf-8", "surrogatepass"))
    | st.sampled_from([None, b"", b" \n", b'{"a":"\xff"}', b'{"a":"\xed\xa0\x80"}', b"\0", b"{}{}"])
    | st.binary(max_size=50)
)
bytes_ = (
    st.none() | st.sampled_from([b"", b"\0", b"\xff\xfe", b"k" * 100_000, b"k" * 1_100_000]) | st.binary(max_size=8)
)
headers = st.lists(
    st.tuples(st.sampled_from([b"", b"h", b"\0", b"\xff", b"h" * 50_000]), bytes_), max_size=3
) | st.sampled_from([[(b"h", b"v")] * 20_000])


@st.composite
def records(draw: st.DrawFn) -> Record:
    """Draw a Kafka record without a place."""
    return Record(
        topic="hostile",
        partition=0,
        offset=0,
        key=draw(bytes_),
        value=draw(messages),
        timestamp_ms=draw(st.sampled_from([None, -1, 0, -(2**63), 2**63 - 1])),
        timestamp_type=draw(st.integers(-1, 1)),
        headers=draw(headers),
    )
