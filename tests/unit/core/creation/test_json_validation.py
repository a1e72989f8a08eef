import gzip
import pickle
import re
import time

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workorders.core.creation.json_validation import SUSPICIOUS_PATTERN, validate_body

LIMIT = 10 * 1024 * 1024


def verdict(value: bytes, max_bytes: int = LIMIT) -> tuple[str, str] | None:
    rejection = validate_body(value, max_bytes)
    return (rejection.code, rejection.detail) if rejection else None


def code(value: bytes) -> str | None:
    found = verdict(value)
    return found[0] if found else None


def code_of(inner: str) -> str | None:
    return code(b'{"a":' + inner.encode() + b"}")


@pytest.mark.parametrize(
    "value",
    [
        b"{}",
        b' \t\r\n{"a": [1, {"b": null}]} \n',
        '{"name": "Zoë", "smile": "\\ud83d\\ude00", "direct": "😀"}'.encode(),
        b'{"a": 1, "a": 2}',
        rb'{"path": "C:\\u0000", "quoted": "\\\\u0000"}',
        b'{"text": "NaN Infinity 1e-99999"}',
    ],
)
def test_a_json_object_is_a_body(value: bytes) -> None:
    assert verdict(value) is None


@pytest.mark.parametrize(
    ("value", "code", "detail"),
    [
        (b"", "not-json", "the value is empty"),
        (b" \n", "not-json", "the value is white space only"),
        (b'{"a": 1', "not-json", "unexpected end of data at byte 7"),
        (b'{"a": 1}{}', "not-json", "unexpected content after document at byte 8"),
        ('{"é": nope}'.encode(), "not-json", "invalid literal, expected 'null' at byte 7"),
        (b'{"a": "\xff"}', "not-utf8", "the value is not UTF-8 at byte 7"),
        (b'{"a": "\xed\xa0\x80"}', "not-utf8", "the value is not UTF-8 at byte 7"),
        (b"\xef\xbb\xbf{}", "not-json", "the value starts with a byte order mark, which JSON lacks, at byte 0"),
        (b"[1]", "not-an-object", "the value is an array, not an object"),
        (b'"text"', "not-an-object", "the value is a string, not an object"),
        (
            rb'"{\"a\": 1}"',
            "not-an-object",
            "the value is JSON in a string: the sender must serialize it once, not twice",
        ),
        (b"12", "not-an-object", "the value is a number, not an object"),
        (b"1.5", "not-an-object", "the value is a number, not an object"),
        (b"true", "not-an-object", "the value is a boolean, not an object"),
        (b"null", "not-an-object", "the value is the word null, not an object"),
        (b'{"a": NaN}', "not-a-number", "NaN or Infinity, which JSON lacks, is at byte 6"),
        (b'{"a": Infinity}', "not-a-number", "NaN or Infinity, which JSON lacks, is at byte 6"),
        (b'{"a": -Infinity}', "not-a-number", "NaN or Infinity, which JSON lacks, is at byte 7"),
        (rb'{"a": "\u0000"}', "nul-character", "the NUL character is an escape (u0000) at byte 7"),
        (rb'{"\u0000": 1}', "nul-character", "the NUL character is an escape (u0000) at byte 2"),
        (rb'{"a": "\\\u0000"}', "nul-character", "the NUL character is an escape (u0000) at byte 9"),
        (b'{"a": "\0"}', "nul-character", "a NUL character is at byte 7"),
        (rb'{"a": "\ud83d"}', "lone-surrogate", "half of a surrogate pair is alone at byte 7"),
        (rb'{"a": "\udc00"}', "lone-surrogate", "half of a surrogate pair is alone at byte 7"),
        (rb'{"a": "\uD83D\uD83D"}', "lone-surrogate", "half of a surrogate pair is alone at byte 7"),
        (b'{"a": 1e400}', "number-out-of-range", "a number is beyond the range of a double at byte 6"),
        (
            b'{"a": 0.' + b"1" * 16384 + b"}",
            "number-out-of-range",
            "the number at byte 6 has more digits than Postgres holds (16383 after the decimal point)",
        ),
        (b'{"a": 1e-401}', "number-out-of-range", "the number at byte 6 has an exponent beyond 400"),
    ],
)
def test_a_rejection_names_what_and_where(value: bytes, code: str, detail: str) -> None:
    assert verdict(value) == (code, detail)


FRAME = "in a frame of a schema registry (a zero byte and an id): set format"


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (b"\0\0\0\0\7\2a", FRAME),
        (b'\0\0\1\0\7{"a": 1}', FRAME),
        (b"\0\0\0\0\0\0\0\0\7\2a", "in a frame of Apicurio Registry with an id of eight bytes"),
        (b"\1" + b"\xe5" * 16, "in a frame of a schema registry with an id of 16 bytes"),
        (gzip.compress(b"{}", mtime=0), "compressed by gzip: set compression.type in the sender instead"),
        (b"\x28\xb5\x2f\xfd\0", "compressed by zstd"),
        (b"Obj\1\4\x14avro.codec", "an Avro object container file: the sender must use a registry's serializer"),
        (b"\xc3\1\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8\2a", "one Avro object without a schema registry"),
        (b"\xac\xed\0\5t\0\1a", "a serialized Java object: set a JSON serializer in the sender"),
        (pickle.dumps({"a": 1}), "a Python pickle"),
        (b'<?xml version="1.0"?><a/>', "XML or HTML: set a JSON serializer in the sender"),
        (b"\xef\xbb\xbf\n<a/>", "XML or HTML"),
        ('{"a": 1}'.encode("utf-16-le"), "in UTF-16: the sender must encode JSON in UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "in UTF-16"),
        (b"{'a': 1}", "a Python dict as text: the sender must use json.dumps, not str"),
        (b"payload=%7B%22a%22%3A+1%7D&x=2", "an HTML form: set the content type application/json in the sender"),
    ],
    ids=str,
)
def test_a_rejection_names_another_format_and_the_setting_to_use(value: bytes, form: str) -> None:
    found = verdict(value)
    assert found is not None
    assert found[0] == "not-json"
    assert found[1].startswith(f"the value is {form}")


@pytest.mark.parametrize("value", [b"\0\0", b"aGVsbG8=", b"1f8b", b"Object", b"a < b", b"\xff=1"], ids=str)
def test_other_bytes_are_not_taken_for_a_format(value: bytes) -> None:
    found = verdict(value)
    assert found is not None
    assert " at byte " in found[1]


@pytest.mark.parametrize(
    "number",
    [
        "1e-400",
        "1.1E-0400",
        "0e400",
        "0e+00400",
        "5e-324",
        "1e-00000000001",
        "0." + "1" * 16383,
        "0." + "1" * 15983 + "e-400",
        "9" * 308,
        "0." + "1" * 16384 + "e1",
        "1" + "0" * 700 + "e-400",
        "-0.0",
        "1.7976931348623157e308",
    ],
)
def test_a_number_at_the_border_is_accepted(number: str) -> None:
    assert code_of(number) is None


@pytest.mark.parametrize(
    "number",
    [
        "1E-401",
        "1e-000000000000401",
        "1e-9999",
        "-0e401",
        "0E+1073741824",
        "-0.0e99999999999999999999",
        "0." + "1" * 16384,
        "0." + "0" * 16384,
        "0." + "1" * 15984 + "e-400",
        "0." + "1" * 16383 + "e-1",
        "9" * 309,
        "1e-" + "9" * 5000,
        "1" + "0" * 20000 + "e-20000",
    ],
)
def test_a_number_beyond_the_border_is_rejected(number: str) -> None:
    assert code_of(number) == "number-out-of-range"


def test_a_number_out_of_range_is_found_behind_strings_that_look_like_numbers() -> None:
    value = rb'{"1e-99999": "\"1e-99999,\\", "b": 1e-99999}'
    assert verdict(value) == (
        "number-out-of-range",
        f"the number at byte {value.rindex(b'1e')} has an exponent beyond 400",
    )


@pytest.mark.parametrize("inside", ['"1e-99999,"', '"a 1e-99999 ]"', '"\\"1e999}"', '["1e-400,"]'])
def test_what_looks_like_a_far_exponent_in_a_string_is_no_number(inside: str) -> None:
    assert code_of(inside) is None


@pytest.mark.parametrize("space", ["", " ", "\t\r\n"])
@pytest.mark.parametrize("around", ["%s", "[%s]", "[%s,1]", '{"b":%s}'])
def test_a_far_exponent_is_found_whatever_follows_it(around: str, space: str) -> None:
    assert code_of(around % f"1e-401{space}") == "number-out-of-range"


@pytest.mark.parametrize(
    ("number", "times"), [("1e-9999", 1), ("1e-400", 2622), ("1e308", 3405), ("-0.5E-0016", 65537)]
)
def test_numbers_that_grow_too_long_together_are_rejected(number: str, times: int) -> None:
    assert code_of("[" + ",".join([number] * times) + "]") == "number-out-of-range"
    if times > 1:
        assert code_of("[" + ",".join([number] * (times - 1)) + "]") is None


def test_the_last_straw_is_named() -> None:
    value = b'{"a":[' + b",".join([b"1e-400"] * 2622) + b"]}"
    assert verdict(value) == (
        "number-out-of-range",
        f"the number at byte {value.rindex(b'1e')} makes the exponents of the value add up to more than 1048576",
    )


def test_ordinary_identifiers_and_numbers_need_no_closer_look() -> None:
    value = b'{"id": "12e45678-4e12-9e99-8e10-1e1112131415", "a": [1e5, 2.5E-09, 3e+7], "b": "1e55"}'
    assert not re.search(SUSPICIOUS_PATTERN.encode(), value)


def test_a_long_run_of_digits_is_found_wherever_it_is() -> None:
    for shift in range(0, 300, 7):
        value = b'{"pad": "' + b"x" * shift + b'", "a": 0.' + b"1" * 15984 + b"e-400}"
        assert code(value) == "number-out-of-range"
        value = b'{"pad": "' + b"x" * shift + b'", "a": 0.' + b"1" * 16384 + b"}"
        assert code(value) == "number-out-of-range"


def test_1024_levels_are_accepted_and_more_are_rejected() -> None:
    def nested(levels: int) -> bytes:
        return b'{"a":' * levels + b"1" + b"}" * levels

    assert verdict(nested(1024)) is None
    assert code(nested(1025)) == "nested-too-deep"
    assert code(nested(200_000)) == "nested-too-deep"


def test_a_value_over_the_limit_is_rejected_unread() -> None:
    assert verdict(b'{"a":"xx"}', max_bytes=10) is None
    assert verdict(b'{"a":"xxx"}', max_bytes=10) == (
        "too-large",
        "the value has 11 bytes, more than max_message_bytes (10)",
    )


@pytest.mark.parametrize(
    "value",
    [
        b'{"a":"' + b"\\\\" * 500_000 + b'\\u0000"}',
        b'{"a":"' + b"\\\\u0000" * 150_000 + b'"}',
        b'{"a":[' + b"1e-00001," * 100_000 + b"1]}",
        b'{"a":[' + b"1e-9999," * 120_000 + b"1]}",
        b'{"a":["1e' + b"0" * 1_000_000 + b'",1e-11]}',
        b'{"a":["1e1' + b"0" * 1_000_000 + b'",1e-11]}',
        b'{"a":["' + b"1e11 " * 200_000 + b" " * 1_000_000 + b'",1e-11]}',
        b'{"a":[' + (b"0." + b"1" * 6300 + b",") * 150 + b"1e-00001]}",
        b'{"a":"' + b"1" * 1_000_000 + b'"}',
        b'{"a":1' + b"0" * 1_000_000 + b"}",
        b"[" * 1_000_000,
    ],
    ids=[
        "backslashes",
        "escaped escapes",
        "exponents",
        "far exponents",
        "zeros like an exponent",
        "digits like an exponent",
        "spaces behind an exponent",
        "fractions",
        "digits",
        "large number",
        "brackets",
    ],
)
def test_a_million_hostile_bytes_take_no_more_than_a_moment(value: bytes) -> None:
    begin = time.process_time()
    verdict(value)
    assert time.process_time() - begin < 2


@given(st.binary(max_size=200))
def test_no_bytes_raise(value: bytes) -> None:
    found = verdict(value)
    assert found is None or (found[0] and found[1])


@given(st.dictionaries(st.text(), st.recursive(st.none() | st.text() | st.floats() | st.integers(), st.lists)))
def test_what_orjson_writes_is_accepted_unless_it_holds_a_nul(value: dict[str, object]) -> None:
    try:
        text = orjson.dumps(value)
    except orjson.JSONEncodeError:  # a lone surrogate, or an integer beyond 64 bits
        return
    expected = "nul-character" if "\0" in repr(value) or rb"\u0000" in text.replace(rb"\\", b"") else None
    assert code(text) == expected
