"""What a person reads in a file is what the package reads: YAML 1.2, each key once."""

from typing import Any

import pytest

from workorders.core.definitions.yaml_text import parse
from workorders.core.exceptions import ConfigurationError


def test_a_value_without_quotes_has_the_type_of_yamls_core_schema() -> None:
    texts = ["NO", "no", "on", "off", "yes", "y", "1:20", "12:30:45", "2026-03-01", "2026-03-01T00:00:00Z"]
    texts += ["1_000", "0b11", "=", "<<", "1.2.3", "nullable", "-"]
    assert parse(f"[{', '.join(texts)}]", where="a.yaml")[0] == texts
    others: dict[str, Any] = {
        "012": 12,
        "0o12": 10,
        "0x1F": 31,
        "-3": -3,
        "1e3": 1000.0,
        ".5": 0.5,
        "-.inf": -float("inf"),
    }
    others |= {"true": True, "False": False, "~": None, "Null": None, "''": "", "'12'": "12", "!!str 12": "12"}
    assert parse(f"[{', '.join(others)}]", where="a.yaml")[0] == list(others.values())
    assert parse("%YAML 1.1\n---\n[NO, 012, on: off]", where="a.yaml")[0] == ["NO", 12, {"on": "off"}]
    assert parse("", where="a.yaml") == (None, {})


def test_an_alias_is_what_its_anchor_is_also_within_itself() -> None:
    content, lines = parse("a: &x\n  b: [1]\nc: *x\nd: &y [*y]\n", where="a.yaml")
    assert content["c"] == content["a"] == {"b": [1]}
    assert content["d"][0] is content["d"]
    assert (lines["a", "b", 0], lines["c",]) == (2, 3)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("topics: [a]\nname: x\ntopics: [b]\n", "line 3: topics: this key is in line 1 already"),
        ("f: {x: 1, y: 2, x: 3}", "line 1: f.x: this key is in line 1 already"),
        ("f:\n- a: 1\n  'a': 2\n", "line 3: f.0.a: this key is in line 2 already"),
        ("f: {1: a, 0x1: b}", 'line 1: this is not YAML: while constructing a mapping: found duplicate key "1"'),
    ],
)
def test_a_key_that_is_given_twice_is_refused_with_both_lines(text: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse(text, where="a.yaml")
    assert str(refused.value).startswith(f"a.yaml, {sentence}")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "a: 1\nschedule: * * * * *\n",
            'line 2: schedule: YAML does not read a value that begins with *; quote it: schedule: "* * * * *"',
        ),
        (
            "schedule: */5 * * * * # often",
            'line 1: schedule: YAML does not read a value that begins with *; quote it: schedule: "*/5 * * * *"',
        ),
        (
            "schedule: @daily",
            'line 1: schedule: YAML does not read a value that begins with @; quote it: schedule: "@daily"',
        ),
        ("owner: !us", 'line 1: owner: YAML does not read a value that begins with !; quote it: owner: "!us"'),
        ("topics: [a, *]", "line 1: YAML does not read a value that begins with *; quote it"),
        (
            "text: a: b",
            "line 1: this is not YAML: in this line: mapping values are not allowed here; quote a text that contains a "
            "colon.",
        ),
        ("a: 'b\nc: 1", "line 1: this is not YAML: while scanning a quoted scalar: found unexpected end of stream."),
        (
            "a: [b,\n",
            "line 2: this is not YAML: while parsing a flow node: expected the node content, but found '<stream end>'.",
        ),
        ("a: [b\nc: 1", "line 2: this is not YAML: while parsing a flow sequence: expected ',' or ']', but got ':'."),
        (
            "a: 1\n---\nb: 1",
            "line 2: this is not YAML: expected a single document in the stream: but found another document.",
        ),
    ],
)
def test_what_is_not_yaml_is_refused_with_its_line_and_a_value_to_quote_with_its_form(text: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse(text, where="a.yaml")
    assert str(refused.value) == f"a.yaml, {sentence}"


@pytest.mark.parametrize(
    ("text", "reason"), [("a: \0", "unacceptable character #x0000"), (f"a: {'1' * 5000}", "Exceeds the limit")]
)
def test_characters_and_numbers_that_cannot_be_read_are_refused(text: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"^a\.yaml: this is not YAML: {reason}"):
        parse(text, where="a.yaml")
